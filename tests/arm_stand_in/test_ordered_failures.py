import pytest

from local.arm import Fault, Quirks
from local.azure_transport import CONNECTION_LOST
from tests.arm_stand_in.conftest import COMPUTE, Bare
from tests.builders import pool

SET = f"{COMPUTE}/virtualMachineScaleSets/gpu"


def test_a_failure_is_delivered_as_often_as_ordered(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    bare.arm.faults.add(Fault("scale_set.get", code="InternalServerError", times=2))
    assert [bare.ask("GET", SET)[0] for _ in range(3)] == [500, 500, 200]
    assert bare.arm.faults.hits == {("scale_set.get", "sync"): 2}


def test_a_failure_hits_only_its_resource(bare: Bare) -> None:
    bare.pools(pool("gpu"), pool("cpu"))
    bare.arm.faults.add(Fault("*", "cpu", code="ServiceUnavailable"))
    assert bare.ask("GET", SET)[0] == 200
    assert bare.ask("GET", f"{COMPUTE}/virtualMachineScaleSets/cpu")[0] == 503


@pytest.mark.parametrize(
    ("code", "status"),
    [("TooManyRequests", 429), ("AuthorizationFailed", 403), ("SkuNotAvailable", 409), ("InternalServerError", 500)],
)
def test_each_code_has_its_usual_status(bare: Bare, code: str, status: int) -> None:
    bare.pools(pool("gpu"))
    bare.arm.faults.add(Fault("scale_set.get", code=code))
    assert bare.ask("GET", SET)[0] == status


def test_a_lost_answer_is_lost_after_the_deed(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    bare.arm.faults.add(Fault("scale_set.update", stage="lost"))
    status, _, headers = bare.ask("PATCH", SET, {"sku": {"capacity": 4}})
    assert (status, CONNECTION_LOST in headers) == (502, True)
    assert bare.capacity("gpu") == 4


def test_an_operation_can_be_slowed_down(bare: Bare) -> None:
    bare.pools(pool("gpu", minimum=1))
    bare.arm.faults.add(Fault("scale_set.delete_instances", stage="slow", seconds=600))
    headers = bare.ask("POST", f"{SET}/delete", {"instanceIds": ["0"]})[2]
    bare.advance(500.0)
    assert bare.status(headers)["status"] == "InProgress"
    bare.advance(200.0)
    assert bare.status(headers)["status"] == "Succeeded"


def test_a_deletion_can_fail_and_leave_the_vm(bare: Bare) -> None:
    bare.pools(pool("gpu", minimum=1))
    bare.arm.faults.add(Fault("scale_set.delete_instances", code="InternalExecutionError", stage="async"))
    headers = bare.ask("POST", f"{SET}/delete", {"instanceIds": ["0"]})[2]
    bare.advance()
    assert bare.status(headers)["error"]["code"] == "InternalExecutionError"
    assert (len(bare.instances("gpu")), bare.capacity("gpu")) == (1, 1)


def test_a_failure_by_chance_comes_about_as_often_as_said(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    order = bare.arm.faults.add(Fault("scale_set.get", code="InternalServerError", times=None, probability=0.25))
    statuses = [bare.ask("GET", SET)[0] for _ in range(400)]
    assert 60 < statuses.count(500) < 140
    bare.arm.faults.remove(order)
    assert {bare.ask("GET", SET)[0] for _ in range(50)} == {200}


def test_seeds_draw_every_assumed_behaviour_both_ways() -> None:
    drawn = [Quirks.drawn(seed) for seed in range(40)]
    for name in Quirks.__dataclass_fields__:
        assert {getattr(quirks, name) for quirks in drawn} == {True, False}, name
    assert Quirks.drawn(7) == Quirks.drawn(7)
