"""Kubernetes quantities as exact integers: cpu in millicores, everything else in whole units.

The grammar is apimachinery's (`resource.Quantity`): a signed decimal number, then a binary suffix (Ki to Ei), a decimal
suffix (n, u, m, none, k to E) or a decimal exponent (e3, E-2). No float is involved anywhere: 0.1 cores are 100
millicores, never 100.00000000000001. Like the API machinery, what does not divide evenly is rounded away from zero, and
a magnitude beyond 63 bits is capped there.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_QUANTITY = 2**63 - 1

_MAX_LENGTH = 128  # of the text; longer ones are no quantity anybody meant
_MAX_EXPONENT = 64  # beyond it a number is zero or capped, so no power that large is ever computed
_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+)|(?P<decimal>[numkMGTPE]?))",
    re.ASCII,
)
_BINARY = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BYTE_SUFFIXES = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


def cpu_millis(quantity: str | int | float) -> int:
    """Millicores, rounded away from zero. Raises ValueError naming the quantity."""
    return _scaled(quantity, 3)


def units(quantity: str | int | float) -> int:
    """Bytes, or a count, rounded away from zero. Raises ValueError naming the quantity."""
    return _scaled(quantity, 0)


def amount(resource: str, quantity: str | int | float) -> int:
    """A quantity of that resource in the core's unit: millicores for cpu, whole units otherwise."""
    return _scaled(quantity, 3 if resource == "cpu" else 0)


def format_cpu(millis: int) -> str:
    """Millicores for a message: `4`, `3920m`."""
    return f"{millis}m" if millis % 1000 else str(millis // 1000)


def format_bytes(count: int) -> str:
    """Bytes for a message, with the largest suffix that keeps a value of at least 1, to two places: `3.5Gi`."""
    for suffix in _BYTE_SUFFIXES:
        if abs(count) >= _BINARY[suffix]:
            return f"{count / _BINARY[suffix]:.2f}".rstrip("0").rstrip(".") + suffix
    return str(count)


def format_amount(resource: str, count: int) -> str:
    """An amount in the core's unit, as a person would write it."""
    if resource == "cpu":
        return format_cpu(count)
    in_bytes = resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-")
    return format_bytes(count) if in_bytes else str(count)


def _scaled(quantity: object, power: int) -> int:
    """The quantity times 10**power, rounded away from zero and capped at 63 bits."""
    return _scaled_text(quantity if isinstance(quantity, str) else _text(quantity), power)


@lru_cache(maxsize=65536)
def _scaled_text(text: str, power: int) -> int:
    numerator, denominator = _exact(text, power)
    magnitude = min(-(-abs(numerator) // denominator), MAX_QUANTITY)
    return magnitude if numerator >= 0 else -magnitude


def _text(quantity: object) -> str:
    if isinstance(quantity, bool) or not isinstance(quantity, int | float):
        raise ValueError(f"not a quantity: {str(quantity)[:60]}; write it like 500m, 1.5, 2Gi or 1e3")
    if isinstance(quantity, int):
        return str(max(-MAX_QUANTITY, min(quantity, MAX_QUANTITY)))
    return repr(quantity)


def _exact(text: str, power: int) -> tuple[int, int]:
    """Numerator and denominator of the number times 10**power."""
    match = _GRAMMAR.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None or not (match["whole"] or match["fraction"]):
        raise ValueError(f"not a quantity: {text[:60]!r}; write it like 500m, 1.5, 2Gi or 1e3")
    whole, fraction = match["whole"] or "", match["fraction"] or ""
    mantissa = int(match["sign"] + (whole + fraction))
    exponent = power - len(fraction) + _exponent(match)
    binary = _BINARY.get(match["binary"] or "", 1)
    if exponent >= 0:
        return mantissa * binary * 10**exponent, 1
    return mantissa * binary, 10**-exponent


def _exponent(match: re.Match[str]) -> int:
    written = match["exponent"]
    if written is None:
        return _DECIMAL[match["decimal"] or ""]
    return max(-_MAX_EXPONENT - _MAX_LENGTH, min(_MAX_EXPONENT + _MAX_LENGTH, int(written)))
