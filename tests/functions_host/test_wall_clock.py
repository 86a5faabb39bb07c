"""The host as a process would run it: threads, an event loop, HTTP."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import azure.durable_functions as df
import orjson
import requests

from local.functions_host import HostOptions, serve_host
from tests.functions_host.apps import Seen, trigger_app

SECONDS = 10.0


def eventually(happened: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if happened():
            return True
        time.sleep(0.005)
    return False


def test_an_event_over_http_starts_an_orchestration_whose_output_a_route_reads():
    server = serve_host(trigger_app(Seen()), options=HostOptions(timers=False))
    event = {"specversion": "1.0", "id": "e1", "source": "/s", "type": "t", "data": {"n": 1}}
    webhook = f"{server.url}/runtime/webhooks/EventGrid?functionName=ingest"
    assert requests.post(webhook, data=orjson.dumps([event]), timeout=SECONDS).status_code == 202
    assert eventually(lambda: requests.get(f"{server.url}/api/status/e1", timeout=SECONDS).text == "{'n': 1}")
    server.close()


def slow_app(entered: threading.Event, leave: threading.Event) -> df.DFApp:
    app = df.DFApp()

    @app.activity_trigger(input_name="value")
    def slow(value: str) -> str:
        entered.set()
        leave.wait(SECONDS)
        return value.upper()

    @app.orchestration_trigger(context_name="context")
    def main(context: df.DurableOrchestrationContext):
        return (yield context.call_activity("slow", context.get_input()))

    return app


def test_closing_waits_for_running_activities_and_keeps_their_results(tmp_path: Path):
    entered, leave = threading.Event(), threading.Event()
    server = serve_host(slow_app(entered, leave), journal_path=tmp_path / "hub.db")
    server.host.client_start("main", "done", "a")
    assert entered.wait(SECONDS)
    threading.Timer(0.05, leave.set).start()
    server.close()
    entered.clear()
    again = serve_host(slow_app(entered, leave), journal_path=tmp_path / "hub.db")
    assert eventually(lambda: again.host.instance("a").output == "DONE")
    again.close()
    assert not entered.is_set()


def test_the_same_port_is_free_again_after_closing():
    first = serve_host(trigger_app(Seen()))
    first.close()
    second = serve_host(trigger_app(Seen()), port=first.port)
    assert requests.get(f"{second.url}/admin/host/status", timeout=SECONDS).json() == {
        "state": "Running",
        "violations": [],
    }
    second.close()
