"""Whatever word a reason begins with, docs/reasons.md says what it means and what to do."""

import ast
import re
from pathlib import Path

import shared

ROOT = Path(shared.__file__).parent
PAGE = (ROOT.parent / "docs" / "reasons.md").read_text()
WORD = re.compile(r"([A-Z][a-z]+(?:[A-Z][a-z]+)*): ")


def words(tree):
    """What texts of a module begin with, as far as that can be seen without running it."""
    for item in ast.walk(tree):
        if isinstance(item, ast.Constant) and isinstance(item.value, str) and "\n" not in item.value:
            found = WORD.match(item.value)
            if found:
                yield found[1]


def test_every_reason_of_the_core_stands_on_the_page():
    used = {word for path in ROOT.rglob("*.py") for word in words(ast.parse(path.read_text()))}
    assert "PoolFull" in used
    missing = sorted(word for word in used if word not in PAGE)
    assert missing == [], f"docs/reasons.md does not say what {missing} mean"
