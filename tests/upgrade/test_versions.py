"""Which code an instance goes on with, and what a host makes of an instance's version."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import azure.durable_functions as df
import pytest

from functions import versions
from functions.versions import Kept, by_version
from local.durable.model import Latencies
from local.durable.versions import is_later, of_tree
from local.functions_host import FunctionsHost, HostOptions
from local.timeline import VirtualTimeline


def coded(answer: str, name: str = "saga") -> Any:
    def saga(context: Any) -> Any:
        yield answer

    saga.__name__ = name
    return saga


def chosen(orchestrator: Any, version: str | None) -> Any:
    return next(orchestrator(SimpleNamespace(version=version)))


def test_an_orchestrator_without_former_code_is_itself():
    present = coded("present")
    assert by_version(present) is present


@pytest.mark.parametrize(
    ("version", "code"),
    [(None, "first"), ("1.0", "first"), ("1.1", "second"), ("1.9", "second"), ("1.10", "third"), ("2.0", "present")],
)
def test_an_instance_goes_on_with_the_oldest_code_that_is_no_older_than_itself(
    version: str | None, code: str, monkeypatch: pytest.MonkeyPatch
):
    kept = (Kept("1.10", coded("third")), Kept("1.0", coded("first")), Kept("1.9", coded("second")))
    monkeypatch.setitem(versions.KEPT, "saga", kept)
    assert chosen(by_version(coded("present")), version) == code


def test_former_code_of_one_orchestrator_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(versions.KEPT, "saga", (Kept("1.0", coded("former")),))
    other = coded("other", "other")
    assert by_version(other) is other
    assert by_version(coded("present")).__name__ == "saga"


@pytest.mark.parametrize(
    ("one", "other", "later"),
    [("1.10", "1.9", True), ("1.9", "1.10", False), ("1.0", "1.0", False), ("1.0", "", True), ("", "1.0", False)],
)
def test_versions_compare_by_their_numbers(one: str, other: str, later: bool):
    assert is_later(one, other) is later


def test_host_json_names_a_version_that_the_extension_compares_by_numbers():
    major, _, minor = of_tree().partition(".")
    assert major.isdecimal()
    assert minor.isdecimal()


def telling_app() -> df.DFApp:
    app = df.DFApp()

    @app.orchestration_trigger(context_name="context")
    def child(context: df.DurableOrchestrationContext) -> Any:
        yield from ()
        return context.version

    @app.orchestration_trigger(context_name="context")
    def parent(context: df.DurableOrchestrationContext) -> Any:
        given = context.get_input() or 0
        if given < 2:
            context.continue_as_new(given + 1)
            return None
        return [context.version, (yield context.call_sub_orchestrator("child"))]

    return app


def test_instances_and_their_children_bear_the_version_of_their_host_also_when_they_continue_as_new():
    timeline = VirtualTimeline()
    host = FunctionsHost(telling_app(), timeline, HostOptions(latencies=Latencies.none(), version="3.1"))
    host.client_start("parent", 0, "a")
    timeline.run(timeline.now())
    assert host.instance("a").output == ["3.1", "3.1"]
