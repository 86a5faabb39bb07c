"""Core quotas are read before anything is bought, and what they leave is not asked for in vain."""

from __future__ import annotations

import pytest

from local.arm.faults import Fault
from tests.orchestrations.stage import Stage


def limited(name: str, cores: int) -> Stage:
    stage = Stage()
    stage.stand.arm.cloud.quota.set_limit(name, cores)
    return stage


def bought(stage: Stage, pods: int = 3) -> dict[str, int]:
    stage.submit(pods)
    stage.run(2)
    stage.say()
    stage.run(60)
    return stage.machines()


def test_what_a_quota_does_not_allow_is_bought_elsewhere_without_a_refusal() -> None:
    stage = limited("lowPriorityCores", 8)
    assert bought(stage) == {"spot": 2, "regular": 1}
    assert stage.ledger()["failures"] == []


def test_a_region_is_read_once_in_five_minutes() -> None:
    stage = limited("lowPriorityCores", 8)
    bought(stage)
    first = stage.document("quotas/00000000-0000-0000-0000-000000000001-westeurope.json")
    stage.submit(2, prefix="more")
    stage.say()
    stage.run(30)
    again = stage.document("quotas/00000000-0000-0000-0000-000000000001-westeurope.json")
    assert again == first
    assert stage.machines() == {"spot": 2, "regular": 3}


def test_pods_that_no_quota_is_left_for_are_told_so() -> None:
    stage = limited("cores", 4)
    stage.stand.arm.cloud.quota.set_limit("lowPriorityCores", 0)
    assert bought(stage) == {"spot": 0, "regular": 1}
    (unserved,) = stage.document("latest.json")["unserved"]
    assert unserved["reasons"]["spot"].startswith("QuotaExceeded: lowPriorityCores 0 of 0 vCPUs left")


@pytest.mark.parametrize("code", ["InternalServerError", "TooManyRequests"])
def test_a_reading_that_fails_holds_nobody_up(code: str) -> None:
    stage = limited("lowPriorityCores", 400)
    stage.stand.arm.faults.add(Fault(operation="usages", resource="", code=code, stage="sync"))
    assert bought(stage)["spot"] == 3
    assert stage.stand.arm.faults.hits["usages", "sync"] > 0
