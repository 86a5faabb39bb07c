"""A small app with one function of each kind, and a host for it on virtual time."""

from __future__ import annotations

import pytest

from local.durable.model import Latencies
from local.functions_host import FunctionsHost, HostOptions
from local.timeline import VirtualTimeline
from tests.durable_backend.apps import Calls, sample_app


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def timeline() -> VirtualTimeline:
    return VirtualTimeline()


@pytest.fixture
def host(timeline: VirtualTimeline, calls: Calls) -> FunctionsHost:
    return FunctionsHost(sample_app(calls), timeline, HostOptions(latencies=Latencies.none()))
