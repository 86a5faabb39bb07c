from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.quantity import MAX_QUANTITY, amount, cpu_millis, format_amount, format_bytes, format_cpu, units

POWERS = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "k": Fraction(10**3),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50),
    "Ei": Fraction(2**60), "e3": Fraction(1000), "E3": Fraction(1000), "e-2": Fraction(1, 100), "e+1": Fraction(10),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("0", 0), ("1", 1000), ("100m", 100), ("0.1", 100), (".5", 500), ("5.", 5000), ("1e3", 1_000_000), ("1n", 1),
        ("1u", 1), ("1.0001", 1001), ("250m", 250), ("+2", 2000), ("1k", 1_000_000), (2, 2000), (0.1, 100), (1e-7, 1),
    ],
)  # fmt: skip
def test_cpu_is_read_to_millicores_and_rounded_up(text, millis):
    assert cpu_millis(text) == millis


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1Ki", 1024), ("1.5Gi", 1_610_612_736), ("1E", 10**18), ("1Ei", 2**60), ("1e3", 1000), ("1E3", 1000),
        ("100m", 1), ("1500m", 2), ("-1500m", -2), ("0", 0), ("-0", 0), ("1e-30", 1), ("0e99999999", 0),
    ],
)  # fmt: skip
def test_everything_else_is_read_to_whole_units(text, count):
    assert units(text) == count


@given(
    whole=st.integers(min_value=0, max_value=10**12),
    fraction=st.text("0123456789", max_size=12),
    sign=st.sampled_from(["", "+", "-"]),
    suffix=st.sampled_from(sorted(POWERS)),
)
def test_a_quantity_is_the_exact_number_rounded_away_from_zero(whole, fraction, sign, suffix):
    exact = (Fraction(whole) + Fraction(int(fraction or 0), 10 ** len(fraction))) * POWERS[suffix]
    expected = min(math.ceil(exact), MAX_QUANTITY)
    assert units(f"{sign}{whole}.{fraction}{suffix}") == (-expected if sign == "-" else expected)
    assert cpu_millis(f"{whole}.{fraction}{suffix}") == min(math.ceil(exact * 1000), MAX_QUANTITY)


@pytest.mark.parametrize("huge", ["9e99999999", "1" * 100, "99999Ei", 1e300])
def test_a_huge_quantity_is_capped_at_63_bits(huge):
    assert units(huge) == MAX_QUANTITY


def test_a_number_of_thousands_of_digits_is_capped_too():
    assert units(10**5000) == MAX_QUANTITY
    assert units(-(10**5000)) == -MAX_QUANTITY


@pytest.mark.parametrize(
    "text",
    ["", "m", ".", "+", "1K", "1ki", "1 Gi", " 1", "1\n", "1e", "1e1.5", "1e5k", "1mi", "0x10", "1_000", "nan", "inf",
     "--1", "1Gib", "٣", "1" * 200, True, False, None, [], {}, math.nan, math.inf],
)  # fmt: skip
def test_what_is_no_quantity_is_refused_by_name(text):
    with pytest.raises(ValueError, match="not a quantity"):
        units(text)


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused_by_name(text):
    try:
        count = units(text)
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = ""
        assert abs(count) <= MAX_QUANTITY
    assert refusal == "" or repr(text) in refusal


def test_the_resource_decides_the_unit():
    assert amount("cpu", "2") == 2000
    assert amount("nvidia.com/gpu", "2") == 2
    assert amount("memory", "2Mi") == 2**21


def test_amounts_are_written_as_a_person_would():
    assert [format_cpu(4000), format_cpu(3920), format_cpu(0)] == ["4", "3920m", "0"]
    assert [format_bytes(2**30 * 7 // 2), format_bytes(1023), format_bytes(2**60)] == ["3.5Gi", "1023", "1Ei"]
    assert format_amount("cpu", 1500) == "1500m"
    assert format_amount("memory", 2**31) == "2Gi"
    assert format_amount("hugepages-2Mi", 2**21) == "2Mi"
    assert format_amount("pods", 110) == "110"
