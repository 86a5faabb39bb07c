from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from local.durable.journal import SqliteJournal
from local.functions_host import FunctionsHost
from local.timeline import EPOCH, VirtualTimeline
from tests.functions_host.apps import Seen, trigger_app


def test_times_missed_while_the_host_was_down_are_one_past_due_call(tmp_path: Path, seen: Seen):
    journal = SqliteJournal(tmp_path / "hub.db")
    timeline = VirtualTimeline()
    FunctionsHost(trigger_app(seen), timeline, journal=journal)
    timeline.run(EPOCH + timedelta(minutes=6))
    later = VirtualTimeline(EPOCH + timedelta(minutes=42))
    FunctionsHost(trigger_app(again := Seen()), later, journal=journal)
    later.run(EPOCH + timedelta(minutes=46))
    assert [timer.past_due for timer in again] == [True, False]
