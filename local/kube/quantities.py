"""Kubernetes quantities, on purpose apart from the core's: a stand-in that shared its parser would share its errors."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

_QUANTITY = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E))?$")
_FACTORS = {
    **{suffix: Decimal(10) ** power for suffix, power in {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9}.items()},
    **{suffix: Decimal(10) ** power for suffix, power in {"T": 12, "P": 15, "E": 18}.items()},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}


@lru_cache(maxsize=4096)
def milli(quantity: str | float) -> int:
    """In thousandths, rounded up. Raises ValueError naming the value."""
    found = _QUANTITY.match(str(quantity).strip())
    if not found:
        raise ValueError(f"{quantity!r} is not a quantity")
    number = Decimal(found[1] + (found[2] or "")) * _FACTORS.get(found[3] or "", Decimal(1))
    return int((number * 1000).to_integral_value(ROUND_CEILING))


def whole(quantity: str | float) -> int:
    """In whole units, rounded up. Raises ValueError naming the value."""
    return -(-milli(quantity) // 1000)


def amount(name: str, quantity: str | float) -> int:
    """As the scheduler counts: cpu in thousandths of a core, everything else in whole units."""
    return milli(quantity) if name == "cpu" else whole(quantity)
