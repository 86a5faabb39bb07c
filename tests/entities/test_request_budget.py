"""The token bucket that all clusters of a subscription draw from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.state.request_budget import CAPACITY, REFILL_PER_SECOND, RETRY_AFTER_CAP, apply

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
Json = dict[str, Any]


def draw(state: Json | None, amount: float, seconds: float = 0.0, *, urgent: bool = False) -> tuple[Json, float]:
    order = {"now": (NOW + timedelta(seconds=seconds)).isoformat(), "amount": amount, "urgent": urgent}
    state, answer = apply(state, "draw", order)
    return state, answer["wait"]


def test_a_full_bucket_gives_at_once() -> None:
    assert draw(None, CAPACITY)[1] == 0


def test_an_empty_one_says_how_long_to_wait_and_keeps_its_word() -> None:
    state, _ = draw(None, CAPACITY)
    state, wait = draw(state, 20)
    assert wait == pytest.approx(20 / REFILL_PER_SECOND)
    assert draw(state, 0, wait)[1] == 0


def test_those_who_find_it_empty_queue_and_are_told_once_when_it_is_their_turn() -> None:
    state, _ = draw(None, CAPACITY)
    waits = []
    for _ in range(300):
        state, wait = draw(state, 15)
        waits.append(wait)
    assert waits == pytest.approx([(turn + 1) * 15 / REFILL_PER_SECOND for turn in range(300)])


def test_what_is_urgent_passes_the_queue_but_not_a_shut_door() -> None:
    state, _ = draw(None, CAPACITY)
    state, _ = draw(state, CAPACITY)
    state, wait = draw(state, 20, urgent=True)
    assert wait == 0
    state, _ = apply(state, "throttled", {"now": NOW.isoformat(), "retry_after": 40})
    assert draw(state, 20, urgent=True)[1] == pytest.approx(40)


def test_it_never_holds_more_than_its_size() -> None:
    state, _ = draw(None, 1)
    state, wait = draw(state, CAPACITY, 86_400)
    assert wait == 0
    assert draw(state, 1, 86_400)[1] > 0


def test_an_order_larger_than_the_bucket_is_served_when_the_bucket_is_full() -> None:
    assert draw(None, 10 * CAPACITY)[1] == 0


def test_retry_after_shuts_it_for_everybody() -> None:
    state, _ = apply(None, "throttled", {"now": NOW.isoformat(), "retry_after": 40})
    assert draw(state, 1)[1] == pytest.approx(40)
    assert draw(state, 1, 41)[1] == 0


def test_a_shorter_retry_after_does_not_open_it_earlier() -> None:
    state, _ = apply(None, "throttled", {"now": NOW.isoformat(), "retry_after": 40})
    state, _ = apply(state, "throttled", {"now": NOW.isoformat(), "retry_after": 5})
    assert draw(state, 1)[1] == pytest.approx(40)


def test_a_retry_after_of_twenty_minutes_is_not_believed() -> None:
    state, _ = apply(None, "throttled", {"now": NOW.isoformat(), "retry_after": 1200})
    assert draw(state, 1)[1] == pytest.approx(RETRY_AFTER_CAP)


def test_an_unknown_operation_is_named() -> None:
    with pytest.raises(ValueError, match="'drain'"):
        apply(None, "drain", {"now": NOW.isoformat()})
