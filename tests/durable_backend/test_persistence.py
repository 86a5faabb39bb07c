from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest

from local.durable import history
from local.durable.journal import Changes, SqliteJournal
from local.durable.model import Latencies
from local.functions_host import FunctionsHost, HostOptions
from local.timeline import EPOCH, VirtualTimeline, WallTimeline
from tests.durable_backend.apps import Calls, sample_app

HOUR = timedelta(hours=1)
SEED = 20_260_101


class Killed(BaseException):
    """The process died here."""


class DyingJournal(SqliteJournal):
    """Dies at the n-th commit, just before or just after it took hold."""

    def __init__(self, path: Path, after: int, *, before_write: bool) -> None:
        super().__init__(path)
        self._left, self._before_write = after, before_write

    def commit(self, changes: Changes) -> None:
        self._left -= 1
        if self._left == 0 and self._before_write:
            raise Killed
        super().commit(changes)
        if self._left == 0:
            raise Killed


def finish(path: Path, calls: Calls, timeline: VirtualTimeline) -> FunctionsHost:
    journal = SqliteJournal(path)
    host = FunctionsHost(sample_app(calls), timeline, HostOptions(latencies=Latencies.none()), journal=journal)
    if "a" not in host.engine.instances:
        host.client_start("adding", 3, "a")
    if "p" not in host.engine.instances:
        host.client_start("polling", None, "p")
    timeline.run(timeline.now() + HOUR)
    journal.close()
    return host


def run_until_killed(path: Path, commits: int, *, before_write: bool) -> tuple[bool, Calls, VirtualTimeline]:
    calls, timeline = Calls(), VirtualTimeline()
    journal = DyingJournal(path, commits, before_write=before_write)
    try:
        host = FunctionsHost(sample_app(calls), timeline, HostOptions(latencies=Latencies.none()), journal=journal)
        host.client_start("adding", 3, "a")
        host.client_start("polling", None, "p")
        timeline.run(EPOCH + HOUR)
    except Killed:
        return True, calls, VirtualTimeline(timeline.now())
    finally:
        journal.close()
    return False, calls, VirtualTimeline(timeline.now())


@pytest.mark.parametrize("before_write", [True, False])
def test_a_death_at_any_commit_loses_nothing_and_doubles_no_entity_operation(tmp_path: Path, before_write: bool):
    commits, died = 0, True
    while died:
        commits += 1
        path = tmp_path / f"{commits}.db"
        died, calls, timeline = run_until_killed(path, commits, before_write=before_write)
        host = finish(path, calls, timeline)
        assert host.entity("counter", "c") == 6, commits
        assert (host.instance("a").output, host.instance("p").output) == (6, 3), commits
        assert 4 <= calls["double"] <= 5, commits
    assert commits > 20


def test_a_timer_that_came_due_while_the_host_was_down_fires_at_once(tmp_path: Path):
    timeline, path = VirtualTimeline(), tmp_path / "hub.db"
    journal = SqliteJournal(path)
    host = FunctionsHost(sample_app(Calls()), timeline, journal=journal)
    host.client_start("sleeping", 60, "a")
    timeline.run(EPOCH + timedelta(seconds=10))
    journal.close()
    later = VirtualTimeline(EPOCH + HOUR)
    options = HostOptions(latencies=Latencies.none())
    host = FunctionsHost(sample_app(Calls()), later, options, journal=SqliteJournal(path))
    later.run(EPOCH + HOUR)
    assert host.instance("a").status == "Completed"


def test_a_finished_instance_and_its_history_are_there_after_a_restart(tmp_path: Path):
    timeline, path = VirtualTimeline(), tmp_path / "hub.db"
    journal = SqliteJournal(path)
    host = FunctionsHost(sample_app(Calls()), timeline, HostOptions(keep_histories=False), journal=journal)
    host.client_start("chain", 3, "a")
    timeline.run(EPOCH + HOUR)
    journal.close()
    host = FunctionsHost(sample_app(Calls()), VirtualTimeline(), journal=SqliteJournal(path))
    assert host.instance("a").output == 8
    kinds = [event["EventType"] for event in host.engine.history_of(host.engine.instances["a"])]
    assert kinds.count(history.TASK_COMPLETED) == 3


def test_purged_instances_are_gone_from_the_file_too(tmp_path: Path):
    timeline, path = VirtualTimeline(), tmp_path / "hub.db"
    journal = SqliteJournal(path)
    host = FunctionsHost(sample_app(Calls()), timeline, journal=journal)
    host.client_start("chain", 3, "a")
    timeline.run(EPOCH + HOUR)
    assert host.purge(before=EPOCH) == 0
    assert host.purge(before=EPOCH + HOUR) == 1
    stored = journal.load()
    assert (stored.instances, stored.messages, journal.history("a")) == ([], [], [])


def live(path: str) -> None:
    """A process with a host on the wall clock that works until everything is done."""
    timeline, journal = WallTimeline(), SqliteJournal(Path(path))
    host = FunctionsHost(sample_app(Calls()), timeline, journal=journal)
    for number in range(25):
        with timeline.lock:
            if f"chain{number}" not in host.engine.instances:
                host.client_start("chain", 8, f"chain{number}")
            if f"adding{number}" not in host.engine.instances:
                host.client_start("adding", 8, f"adding{number}")
    while host.instances(finished=False):
        time.sleep(0.005)
    os._exit(0)


def test_a_host_that_is_killed_again_and_again_still_completes_everything_once(tmp_path: Path):
    path, draw = tmp_path / "hub.db", random.Random(SEED)
    context = multiprocessing.get_context("fork")
    kills = 0
    while True:
        process = context.Process(target=live, args=(str(path),))
        process.start()
        process.join(timeout=draw.uniform(0.01, 0.06) if kills < 8 else 30)
        if process.exitcode is not None:
            break
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        kills += 1
    assert process.exitcode == 0
    assert kills >= 3
    stored = SqliteJournal(path).load()
    assert {instance.status for instance in stored.instances} == {"Completed"}
    assert (len(stored.instances), stored.messages) == (50, [])
    assert {instance.output for instance in stored.instances if instance.name == "chain"} == {"256"}
    assert stored.entities["@counter@c"] == str(25 * 8 * 2)
