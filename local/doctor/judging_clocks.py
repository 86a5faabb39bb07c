"""Clocks that disagree: tokens are refused from minutes on, leases and deadlines are compared within one clock only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from local.doctor.findings import Check, Finding

TOLERATED = timedelta(seconds=30)
"""The exporter's Lease: the shortest time for which two machines' clocks are compared."""
HERE = "this machine"


def judge(offsets: Mapping[str, timedelta]) -> Iterator[Finding]:
    """`offsets` of other clocks against this machine's. Which one is wrong, the middle one says."""
    if not offsets:
        return
    all_of_them = {HERE: timedelta(0), **offsets}
    middle = sorted(all_of_them.values())[len(all_of_them) // 2]
    for name, offset in all_of_them.items():
        off, check = offset - middle, Check("clock", name)
        if abs(off) <= TOLERATED:
            yield check.ok("agrees with the others")
            continue
        side = "ahead" if off > timedelta(0) else "behind"
        told = f"is {abs(off).total_seconds():.0f} s {side}; {TOLERATED.total_seconds():.0f} s would do no harm"
        yield check.failed(told, "see that NTP (chrony, systemd-timesyncd) runs there and reaches its servers")
