"""Which instances a growth claims, when others of its pool are under way too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from functions.pools import likeliest
from shared.adapters.protocols import Instance
from shared.state.ledger import stamp

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def instance(name: str, seconds: float, state: str = "Succeeded") -> Instance:
    made = BEGUN + timedelta(seconds=seconds)
    return Instance(name, name, f"azure:///{name}", state, "", made, "", (), "", (), (), {})


def claims(asked: float, *instances: Instance) -> list[str]:
    order = {"asked": stamp(BEGUN + timedelta(seconds=asked))}
    return [each.instance_id for each in sorted(instances, key=likeliest(order))]


def test_the_oldest_go_to_the_growth_that_was_asked_for_first() -> None:
    assert claims(0, instance("late", 10), instance("early", 1)) == ["early", "late"]


def test_what_stood_just_before_a_growth_was_asked_for_is_claimed_last() -> None:
    assert claims(5, instance("before", 4), instance("after", 6)) == ["after", "before"]


def test_what_may_still_fail_is_claimed_after_what_is_ready() -> None:
    assert claims(0, instance("coming", 1, "Creating"), instance("ready", 2)) == ["ready", "coming"]
