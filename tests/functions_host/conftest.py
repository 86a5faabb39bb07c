from __future__ import annotations

import pytest

from local.durable.model import Latencies
from local.functions_host import FunctionsHost, HostOptions
from local.timeline import VirtualTimeline
from tests.functions_host.apps import Seen, trigger_app


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def timeline() -> VirtualTimeline:
    return VirtualTimeline()


@pytest.fixture
def host(timeline: VirtualTimeline, seen: Seen) -> FunctionsHost:
    return FunctionsHost(trigger_app(seen), timeline, HostOptions(latencies=Latencies.none(), timers=False))
