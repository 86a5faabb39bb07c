"""What comes with the requirements: each package known, and under a licence that asks for nothing but its notice."""

import pytest

from tests.package.archive import ROOT
from tests.package.bill import Json, bill, licences

pytestmark = pytest.mark.package
PERMISSIVE = {
    "Apache Software License", "Apache-2.0", "BSD License", "BSD-3-Clause", "CC0-1.0", "Freely Distributable", "ISC",
    "MIT", "MIT-0", "MPL-2.0", "Mozilla Public License 2.0 (MPL 2.0)", "0BSD", "PSF-2.0", "Public Domain", "Python-2.0",
    "Unlicense", "Zlib",
}  # fmt: skip


@pytest.fixture(scope="module")
def document() -> Json:
    return bill()


def test_every_requirement_is_on_the_bill_in_the_version_that_is_pinned(document: Json):
    listed = {(each["name"].lower(), each["version"]) for each in document["components"]}
    pinned = [line.strip().lower().split("==") for line in (ROOT / "requirements.txt").read_text().splitlines()]
    assert [pin for pin in pinned if len(pin) == 2 and tuple(pin) not in listed] == []


def test_every_package_is_under_a_permissive_licence(document: Json):
    wrong = {each["name"]: licences(each) for each in document["components"] if not is_permissive(licences(each))}
    assert wrong == {}


def is_permissive(names: list[str]) -> bool:
    """All of what must be heeded together; one of what may be chosen among."""
    return bool(names) and all(_allowed(name) for name in names)


def _allowed(name: str) -> bool:
    plain = name.replace("(MPL 2.0)", "").strip() if name.startswith("Mozilla") else name
    if plain in PERMISSIVE or name in PERMISSIVE:
        return True
    parts = [part.strip(" ()") for part in plain.replace(" OR ", " AND ").split(" AND ")]
    return len(parts) > 1 and all(part in PERMISSIVE for part in parts)
