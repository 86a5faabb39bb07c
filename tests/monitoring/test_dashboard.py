"""The dashboard counts lines that the app really writes, and finds in them what it sorts by."""

from __future__ import annotations

import ast
import re
from itertools import product
from pathlib import Path

import orjson
import pytest

from local.arm.faults import Fault
from tests.monitoring import kql
from tests.monitoring.watch import MONITORING, watched
from tests.orchestrations.stage import Stage

FUNCTIONS = Path(__file__).parents[2] / "functions"
WORKBOOK = orjson.loads((MONITORING / "workbook.json").read_bytes())
PANELS = {each["name"]: each["content"] for each in WORKBOOK["items"] if each["type"] == 3}
OURS = sorted(name for name, panel in PANELS.items() if panel["query"].startswith("AppTraces"))
"""The panels on our own lines; the others are on what the Functions host reports of itself."""


def patterns(text: str) -> list[str]:
    """What lines must match, one alternative at a time."""
    found = []
    for pattern in re.findall(r'matches regex @"([^"]*)"', text):
        parts = [part[1:-1].split("|") if part.startswith("(") else [part] for part in _split(pattern)]
        found += ["".join(choice) for choice in product(*parts)]
    return found


def _split(pattern: str) -> list[str]:
    return re.findall(r"\((?:[^()]|\[[^\]]*\])*\)|(?:\[[^\]]*\]|[^(\[])+", pattern)


def said() -> list[str]:
    """How every line of the app begins, with the names of its fields."""
    found = []
    for file in sorted(FUNCTIONS.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            text = node.args[0].value
            if isinstance(node.func, ast.Name) and node.func.id == "tell":
                found.append(" ".join([text, *(f"{each.arg}='x'" for each in node.keywords if each.arg)]))
            elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
                found += [re.sub(r"%[sd]", "x", text)] if node.func.value.id == "LOG" else []
    return found


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """A day with a bit of everything: a fallback, a refusal, pods without a pool, a lost event, a departure."""
    stage = Stage(timers=True)
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", code="AllocationFailed", times=1))
    with watched(stage) as watch:
        stage.publisher.publish([{**stage.event(), "type": "sluice.nonsense"}])
        stage.submit(2)
        stage.submit(1, cpu="40", prefix="big")
        stage.run(2)
        stage.say(seconds=700)
        stage.finish("pod")
        stage.idle(seconds=300)
    return [line for _, line in watch.lines]


@pytest.mark.parametrize("name", OURS)
def test_a_panel_finds_its_lines_and_what_it_sorts_them_by(name: str, lines: list[str]) -> None:
    text = re.split(r"\n\| (?:summarize|project) ", PANELS[name]["query"])[0]
    rows = kql.run(text, {"AppTraces": [{"Message": line} for line in lines]})
    assert rows
    for column in re.findall(r"extend (\w+) = ", text):
        found = [row[column] for row in rows]
        assert any(found) or column == "Zone", column  # a scale set without zones names none


@pytest.mark.parametrize("pattern", sorted({p for panel in OURS for p in patterns(PANELS[panel]["query"])}))
def test_a_panel_asks_for_no_line_that_nobody_writes(pattern: str) -> None:
    assert any(re.search(pattern, line) for line in said())


@pytest.mark.parametrize("name", sorted(PANELS.keys() - set(OURS)))
def test_other_panels_ask_for_tables_of_application_insights(name: str) -> None:
    assert PANELS[name]["query"].split("\n")[0] in {"AppRequests", "AppExceptions"}
