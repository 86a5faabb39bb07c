"""Many worlds at once: which are played, what is told of them, and what a patch of somebody's does to them."""

from __future__ import annotations

import difflib
import logging
from collections import Counter
from pathlib import Path

import pytest

from local.errors import BAD_INPUT, DONE, VIOLATIONS
from local.simulation.command import Campaign, main, read_cases, report
from local.simulation.driver import Outcome
from local.simulation.mutant import ROOT, mutated
from local.simulation.probes import REQUIRED, never_reached
from local.simulation.workload import Deed
from local.simulation.worlds import draw_world

LIMIT = "local/durable/model.py"
CASES = Path(__file__).with_name("cases.txt")


@pytest.fixture
def patch(tmp_path: Path) -> Path:
    """Makes the host find every payload too large."""
    before = (ROOT / LIMIT).read_text()
    after = before.replace("payload_bytes: int = 32_768", "payload_bytes: int = 10")
    assert after != before
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{LIMIT}", f"b/{LIMIT}")
    file = tmp_path / "limit.patch"
    file.write_text("".join(lines))
    return file


def test_a_patch_changes_a_copy_and_not_the_tree(patch: Path):
    with mutated(patch) as tree:
        assert "payload_bytes: int = 10" in (tree / LIMIT).read_text()
    assert not tree.exists()
    assert "payload_bytes: int = 32_768" in (ROOT / LIMIT).read_text()


def test_what_a_patch_breaks_is_found_and_told(patch: Path, capfd: pytest.CaptureFixture[str]):
    assert main(["--mutant", str(patch), "--seeds", "20", "--first", "6", "--jobs", "1"]) == VIOLATIONS
    told = capfd.readouterr().out.splitlines()
    assert any(line.startswith("seed 6: ") and "payload-size" in line for line in told)
    assert told[-1].startswith("1 worlds, 1 with violations")


@pytest.mark.parametrize("text", [None, "--- a/none.py\n+++ b/none.py\n@@ -1 +1 @@\n-x\n+y\n"])
def test_a_patch_that_is_missing_or_does_not_apply_is_bad_input(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "some.patch"
    if text is not None:
        file.write_text(text)
    assert main(["--mutant", str(file), "--seeds", "1"]) == BAD_INPUT
    assert capsys.readouterr().err.startswith(f"MUTANT={file}")


def test_a_world_that_broke_a_rule_is_told_with_the_command_that_plays_it_again():
    told = list(report(Outcome(17, "", ("t=1.0s left-over: a VM",))))
    assert told == ["seed 17: t=1.0s left-over: a VM", "seed 17: play it again with  make sim SEED=17 ARGS=--trace"]


def test_a_campaign_of_one_calm_world_ends_well(capsys: pytest.CaptureFixture[str]):
    assert Campaign([6], 1, stop=False).run() == DONE
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 worlds, 0 with violations")


def test_the_file_of_cases_is_in_order():
    assert read_cases(CASES)


def test_a_case_without_a_seed_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "cases.txt"
    file.write_text("# the first two\n12 found something\nno seed\n")
    assert main(["--cases", str(file), "--first", "0", "--seeds", "0"]) == BAD_INPUT
    assert "'no' is no seed" in capsys.readouterr().err


def test_whoever_runs_the_command_in_process_can_log_again_afterwards(tmp_path: Path):
    assert main(["--cases", str(tmp_path / "none.txt")]) == BAD_INPUT
    assert logging.getLogger("sluice").isEnabledFor(logging.ERROR)


def test_rare_cases_that_no_world_has_met_are_named():
    met = Counter(dict.fromkeys(REQUIRED - {"arm.hanging"}, 1))
    assert never_reached(met) == ["arm.hanging"]


def test_every_deed_of_a_world_lies_within_its_busy_time():
    for seed in range(100):
        world = draw_world(seed)
        late: list[Deed] = [deed for deed in world.deeds if not 0 <= deed.at <= world.busy]
        assert late == [], seed
