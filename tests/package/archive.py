"""What `func azure functionapp publish` uploads: the repository without what `.funcignore` names, as one zip.

The same tree always gives the same bytes: entries in order, one date, one mode.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from pathspec import GitIgnoreSpec

ROOT = Path(__file__).resolve().parents[2]
IGNORED = ".funcignore"
ALWAYS_LEFT_OUT = (".funcignore", ".gitignore", "local.settings.json")  # by the Core Tools, whatever the file says
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date that a zip knows
_MODE = 0o100644 << 16
_MEGABYTE = 1_000_000


def packed_files(root: Path = ROOT) -> list[Path]:
    """The files of the package, relative to `root`, in order. Raises FileNotFoundError without a .funcignore."""
    ignored = GitIgnoreSpec.from_lines([*(root / IGNORED).read_text().splitlines(), *ALWAYS_LEFT_OUT])
    return sorted(path.relative_to(root) for path in _walk(root, root, ignored))


def build(archive: Path, root: Path = ROOT) -> list[Path]:
    """Write the package; what went into it."""
    files = packed_files(root)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as package:
        for file in files:
            entry = zipfile.ZipInfo(file.as_posix(), _EPOCH)
            entry.external_attr, entry.compress_type = _MODE, zipfile.ZIP_DEFLATED
            package.writestr(entry, (root / file).read_bytes())
    return files


def installed_sizes(requirements: Path) -> dict[str, int]:
    """Bytes that each requirement takes where this Python has it installed, without what it needs itself."""
    names = [line.split("==")[0] for line in requirements.read_text().splitlines() if line and line[0] != "#"]
    return {name: _size(metadata.distribution(name)) for name in names}


def _walk(folder: Path, root: Path, ignored: GitIgnoreSpec) -> Iterator[Path]:
    for path in folder.iterdir():
        name = path.relative_to(root).as_posix()
        if path.is_dir():
            if not path.is_symlink() and not ignored.match_file(f"{name}/"):
                yield from _walk(path, root, ignored)
        elif not ignored.match_file(name):
            yield path


def _size(distribution: metadata.Distribution) -> int:
    paths = (Path(str(file.locate())) for file in distribution.files or ())
    return sum(path.stat().st_size for path in paths if path.is_file())


def main() -> int:
    """`python -m tests.package.archive FILE`: build it, and say what it holds and what it makes Azure install."""
    archive = Path(sys.argv[1] if len(sys.argv) > 1 else "out/sluice.zip")
    files = build(archive)
    for name, size in sorted(installed_sizes(ROOT / "requirements.txt").items(), key=lambda item: -item[1]):
        sys.stdout.write(f"{size / _MEGABYTE:8.1f} MB  {name}\n")
    sys.stdout.write(f"{archive}: {len(files)} files, {archive.stat().st_size / 1000:.0f} kB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
