"""A subscription's limits are shared: one refusal speaks to everybody, and nobody asks on in the meantime."""

from __future__ import annotations

from local.arm.faults import Fault
from local.kube.faults import Fault as ApiFault
from shared.state.request_budget import CAPACITY
from tests.orchestrations.stage import Stage

BUDGET = "00000000-0000-0000-0000-000000000001-westeurope"


def test_a_refusal_by_resource_manager_shuts_the_budget_until_it_may_be_asked_again() -> None:
    stage = Stage()
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", code="TooManyRequests", retry_after=60))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=5)
    stage.submit(1, prefix="more")
    stage.run(2)
    before = stage.arm.requests
    stage.say(seconds=40)
    assert len(stage.orchestrations("grow_pool")) == 2
    assert stage.arm.requests == before
    stage.run(200)
    assert len(stage.bound()) == 2


def test_a_refusal_by_the_api_server_says_nothing_about_the_subscription() -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    event = stage.event()
    stage.stand.cluster.faults.add(ApiFault(method="GET", code=429, retry_after=5, times=2))
    stage.publisher.publish([event])
    stage.run(200)
    assert len(stage.bound()) == 1
    budget = stage.host.entity("request_budget", BUDGET)
    assert budget["tokens"] > CAPACITY / 2


def test_polls_that_are_refused_time_and_again_make_no_long_history() -> None:
    stage = Stage()
    often = Fault("operation.get", code="TooManyRequests", retry_after=1, times=None, probability=0.75)
    stage.stand.arm.faults.add(often)
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", stage="slow", seconds=300))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=600)
    assert len(stage.bound()) == 1
    assert stage.stand.arm.faults.hits["operation.get", "sync"] > 10
    assert stage.host.violations == []
