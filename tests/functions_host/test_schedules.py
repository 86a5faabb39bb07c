from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.ncrontab import parse

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("0 */5 * * * *", NEW_YEAR, datetime(2026, 1, 1, 0, 5, tzinfo=UTC)),
        ("0 */5 * * * *", NEW_YEAR + timedelta(minutes=4, seconds=59), datetime(2026, 1, 1, 0, 5, tzinfo=UTC)),
        ("*/30 * * * * *", NEW_YEAR + timedelta(seconds=30), datetime(2026, 1, 1, 0, 1, tzinfo=UTC)),
        ("0 0 3 * * *", NEW_YEAR + timedelta(hours=3), datetime(2026, 1, 2, 3, tzinfo=UTC)),
        ("0 0 9-17/4 * * 1-5", datetime(2026, 1, 2, 17, tzinfo=UTC), datetime(2026, 1, 5, 9, tzinfo=UTC)),
        ("0 0 0 1,15 * *", datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 15, tzinfo=UTC)),
        ("0 0 0 29 feb *", NEW_YEAR, datetime(2028, 2, 29, tzinfo=UTC)),
        ("0 0 0 * * sun", NEW_YEAR, datetime(2026, 1, 4, tzinfo=UTC)),
        ("0 0 0 * * 7", NEW_YEAR, datetime(2026, 1, 4, tzinfo=UTC)),
        ("30 4 * * *", NEW_YEAR, datetime(2026, 1, 1, 4, 30, tzinfo=UTC)),
    ],
)
def test_the_next_time_is_the_first_later_one(schedule: str, after: datetime, expected: datetime):
    assert parse(schedule).next_after(after) == expected


@given(st.integers(0, 86_400 * 40), st.sampled_from(["0 */7 * * * *", "*/13 * 1,22 * * *", "5 5-9 * * * 2,4"]))
def test_nothing_between_a_moment_and_the_next_time_fits_the_schedule(offset: int, text: str):
    schedule, moment = parse(text), NEW_YEAR + timedelta(seconds=offset)
    following = schedule.next_after(moment)
    assert following > moment
    assert schedule.next_after(following - timedelta(seconds=1)) == following
    halfway = moment + timedelta(seconds=int((following - moment).total_seconds()) // 2)
    assert schedule.next_after(halfway) == following or halfway == following


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("* * *", "has 3 fields"),
        ("0 61 * * * *", "field minute has '61'"),
        ("0 */0 * * * *", "field minute has '\\*/0'"),
        ("0 0 5-2 * * *", "field hour has '5-2'"),
        ("0 0 0 * x *", "field month has 'x'"),
    ],
)
def test_a_bad_schedule_is_refused_by_field_and_value(schedule: str, message: str):
    with pytest.raises(ValueError, match=message):
        parse(schedule)


def test_a_day_that_never_comes_is_refused():
    with pytest.raises(ValueError, match="never comes"):
        parse("0 0 0 30 2 *").next_after(NEW_YEAR)
