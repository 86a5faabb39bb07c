"""A release takes over from another one while sagas are under way: the same storage, the same task hub, other code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from functions import versions
from functions.versions import Kept
from local.durable.journal import Changes
from local.simulation.journal import MemoryJournal
from local.system import releases
from local.system.lifetime import HostCrash
from local.system.releases import PRESENT, Release
from local.system.virtual import VirtualSystem
from tests.simulation.worlds import HOUR, QUICK, SPOT_FIRST, submit, task

ROOT = Path(__file__).parents[2]
AS_IT_WAS, WITH_A_STEP_MORE = "sluice_as_it_was", "sluice_with_a_step_more"
NEXT = replace(PRESENT, version="99.0")


@pytest.fixture(scope="module")
def earlier() -> Iterator[Release]:
    """The present sources once more, as a release of their own."""
    yield releases.load(ROOT, AS_IT_WAS)
    releases.unload(AS_IT_WAS)


@pytest.fixture(scope="module")
def other() -> Iterator[Release]:
    """A release whose growths do something that the present one's do not."""

    def edit(module: str, text: str) -> str:
        if module != "functions.growing":
            return text
        begin = '    order = context.get_input()\n    if "operation" not in order:\n'
        assert text.count(begin) == 1
        return text.replace(begin, f"    yield from pause(context, 1.0)\n{begin}")

    yield releases.load(ROOT, WITH_A_STEP_MORE, edit)
    releases.unload(WITH_A_STEP_MORE)


class Interrupted(MemoryJournal):
    """The host goes down, as for an upgrade, at the first commit while an orchestration of this name is under way."""

    def __init__(self, name: str, events: int = 3) -> None:
        super().__init__(lambda: None, lambda: None)
        self._name, self._events = name, events
        self.interrupted = ""

    def commit(self, changes: Changes) -> None:
        super().commit(changes)
        for instance in changes.instances.values():
            deep = len(instance.history) >= self._events
            if not self.interrupted and instance.name == self._name and deep and not instance.finished:
                self.interrupted = instance.id
                raise HostCrash(f"upgrade during {instance.id}", 5.0)


def busy_hours(journal: MemoryJournal, first: Release, then: Release) -> VirtualSystem:
    """Pods come, one Spot node is taken away, and all goes again."""
    system = VirtualSystem(
        SPOT_FIRST, behaviour=QUICK, journal=journal, releases=lambda crashes: then if crashes else first
    )
    submit(system, *(task(f"task-{number}", seconds=120.0) for number in range(4)))
    system.run_for(timedelta(seconds=60))
    taken = next(vm.computer_name for vm in system.stand_ins.arm.truth.live_vms() if vm.spot)
    assert system.stand_ins.preempt(taken, 30.0) is not None
    system.run_until(system.settled, 2 * HOUR)
    return system


SAGAS = (
    "admit",
    "grow_pool",
    "await_operation",
    "retire_node",
    "leave_pool",
    "remove_nodes",
    "replace_evicted",
)


@pytest.mark.parametrize("name", SAGAS)
def test_what_one_release_began_the_next_one_finishes(earlier: Release, name: str):
    journal = Interrupted(name)
    system = busy_hours(journal, earlier, NEXT)
    assert system.crashes == [f"upgrade during {journal.interrupted}"]
    assert system.host.options.version == "99.0"
    assert system.record().violations == ()


@pytest.mark.parametrize("name", ["admit", "grow_pool", "retire_node"])
def test_a_rollback_finishes_what_the_release_before_began(earlier: Release, name: str):
    journal = Interrupted(name)
    system = busy_hours(journal, PRESENT, earlier)
    assert system.crashes == [f"upgrade during {journal.interrupted}"]
    assert system.record().violations == ()


def test_an_orchestrator_that_was_changed_fails_what_was_begun_before(other: Release):
    system = busy_hours(Interrupted("grow_pool"), other, NEXT)
    assert {violation.kind for violation in system.broken} <= {"non-deterministic", "sdk-failure"}
    assert [failed for failed in system.failed if failed.startswith("grow_pool")]


def test_an_orchestrator_whose_former_code_is_kept_finishes_what_was_begun_before(
    other: Release, monkeypatch: pytest.MonkeyPatch
):
    former = sys.modules[f"{WITH_A_STEP_MORE}.functions.growing"].grow_pool
    monkeypatch.setitem(versions.KEPT, "grow_pool", (Kept(other.version, former),))
    journal = Interrupted("grow_pool")
    system = busy_hours(journal, other, NEXT)
    assert system.crashes == [f"upgrade during {journal.interrupted}"]
    assert system.record().violations == ()


def test_a_release_leaves_alone_what_a_later_one_began_until_that_is_back(earlier: Release):
    journal = Interrupted("grow_pool")
    older = replace(earlier, version="1.0")
    system = busy_hours(journal, NEXT, older)
    assert journal.interrupted in {instance.id for instance in system.running()}
    assert system.broken == []
