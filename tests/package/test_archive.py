"""What is uploaded: what runs in Azure, and nothing else."""

import zipfile
from pathlib import Path

from tests.package.archive import build, packed_files

ROOT_FILES = {"function_app.py", "host.json", "requirements.txt"}


def test_only_what_runs_in_azure_is_packed():
    files = packed_files()
    assert {file.parts[0] for file in files if len(file.parts) > 1} == {"functions", "shared"}
    assert {str(file) for file in files if len(file.parts) == 1} == ROOT_FILES
    assert {file.suffix for file in files} == {".py", ".json", ".txt"}


def test_every_module_of_the_app_is_packed():
    packed = set(packed_files())
    root = Path(__file__).resolve().parents[2]
    modules = [path.relative_to(root) for folder in ("functions", "shared") for path in (root / folder).rglob("*.py")]
    assert [str(module) for module in modules if module not in packed] == []


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path):
    build(tmp_path / "one.zip")
    build(tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_what_is_told_to_be_left_out_is_left_out(tmp_path: Path):
    for name in ("function_app.py", "local.settings.json", "secrets/key", "docs/page.md", "shared/a.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".funcignore").write_text("*.md\nsecrets/\n")
    build(tmp_path / "out.zip", tmp_path)
    names = zipfile.ZipFile(tmp_path / "out.zip").namelist()
    assert names == ["function_app.py", "shared/a.py"]
