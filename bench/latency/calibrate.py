"""Processor times that the model takes from this machine: imports of a cold start, and replay with the SDK as it is."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from time import thread_time
from typing import Any

from dateutil.parser import parse

from bench.latency.meter import Measured
from functions.app import create_app
from local.durable import sdk
from local.function_index import index_of
from local.system.services import Doors, InProcess
from local.timeline import EPOCH, VirtualTimeline

RUNS = 3
_IMPORT = "import time; t = time.process_time(); {}; print(time.process_time() - t)"
_FIRST_USED = "import function_app, azure.identity, azure.mgmt.compute"  # the latter two when ARM is first spoken to


def measured() -> Measured:
    """All three figures; a few seconds."""
    return Measured(_import_seconds("import function_app"), _import_seconds(_FIRST_USED), _replay_factor())


def _import_seconds(statement: str) -> float:
    command = [sys.executable, "-c", _IMPORT.format(statement)]
    return min(float(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(RUNS))


def _replay_factor() -> float:
    """How much longer the SDK's handler takes for one episode when it parses timestamps its own way."""
    sdk.prepare()
    events: Any = importlib.import_module("azure.durable_functions.models.history.HistoryEvent")
    timeline = VirtualTimeline()
    services = InProcess(Doors(*(None,) * 4), timeline).services()  # type: ignore[arg-type]  # nobody asks them
    run, context = index_of(create_app(services)).orchestrators["admit"], _context()
    quick = _seconds(run, context)
    events.dt_parse = parse
    try:
        return _seconds(run, context) / quick
    finally:
        sdk.prepare()


def _seconds(run: Callable[[str], str], context: str) -> float:
    def once() -> float:
        before = thread_time()
        run(context)
        return thread_time() - before

    return min(once() for _ in range(50))


def _context() -> str:
    """`admit` after its first answer: the length of history that most episodes of these paths have."""
    started = {"EventType": 12, "EventId": -1, "IsPlayed": False, "Timestamp": _stamp(0)}
    order = json.dumps({"cluster": "bench", "event": "e", "epoch": 1, "sequence": 1, "snapshot": "s"})
    begun = {
        "EventType": 0,
        "EventId": -1,
        "IsPlayed": False,
        "Timestamp": _stamp(0),
        "Name": "admit",
        "Input": order,
        "Version": "",
    }
    history = [started, begun]
    history += [{**started, "Timestamp": _stamp(number)} for number in range(1, 7)]
    document = {
        "history": history,
        "input": order,
        "instanceId": "e",
        "isReplaying": False,
        "parentInstanceId": None,
        "upperSchemaVersion": 1,
        "upperSchemaVersionNew": 2,
        "maximumShortTimerDuration": "6.00:00:00",
        "longRunningTimerIntervalDuration": "3.00:00:00",
        "defaultHttpAsyncRequestSleepTimeMillseconds": 30000,
    }
    return json.dumps(document)


def _stamp(seconds: int) -> str:
    moment: datetime = EPOCH + timedelta(seconds=seconds, microseconds=123456)
    return moment.isoformat().replace("+00:00", "Z")
