"""`python -m tests.package.bill FILE`: the software bill of materials of what Azure installs, in CycloneDX's form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson

from bench import cache
from tests.package.installation import interpreter

CYCLONEDX = ("cyclonedx-bom==7.5.0",)
_TOOLS_OF_THE_ENVIRONMENT = frozenset({"pip", "setuptools"})  # the platform brings its own
Json = dict[str, Any]


def bill() -> Json:
    """The document."""
    program = cache.tool_environment(CYCLONEDX) / "cyclonedx-py"
    done = subprocess.run(
        [program, "environment", interpreter(), "--output-format", "JSON", "--output-reproducible"],
        capture_output=True,
        check=True,
    )
    document: Json = orjson.loads(done.stdout)
    return {**document, "components": [each for each in document["components"] if _is_ours(each)]}


def licences(component: Json) -> list[str]:
    """What a component is under: SPDX ids or expressions, or the words that it uses itself."""
    found = [
        each.get("expression") or each["license"].get("id") or each["license"]["name"]
        for each in component.get("licenses", ())
    ]
    return [text.removeprefix("License :: ").removeprefix("OSI Approved :: ") for text in found]


def _is_ours(component: Json) -> bool:
    return component["name"] not in _TOOLS_OF_THE_ENVIRONMENT


def main() -> int:
    """Write it, and list it."""
    target, document = Path(sys.argv[1]), bill()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    for each in document["components"]:
        sys.stdout.write(f"{each['name']:32} {each['version']:14} {', '.join(licences(each))}\n")
    sys.stdout.write(f"{target}: {len(document['components'])} packages\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
