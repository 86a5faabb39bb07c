"""What is read of a pool before it is written to: a growth must never make Azure choose a VM to delete."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from functions.outcomes import LATER
from functions.pools import GOING, read_pool
from functions.world import World
from shared.adapters.protocols import Instance, ScaleSet
from shared.settings.config import parse_config
from tests.orchestrations.stage import POOLS

STANDING, SUCCEEDED = 4, "Succeeded"
ORDER = {"cluster": "training", "pool": "spot", "op": "op", "now": "2026-01-01T00:00:00+00:00", "budget": "b"}


def vm(number: int, state: str) -> Instance:
    return Instance(str(number), f"spot_{number}", f"azure:///spot_{number}", state, "", None, "", (), "", (), (), {})


def read(going: int, **order: Any) -> dict[str, Any]:
    """A set of six, of which Azure was asked for two in vain, and four stand."""
    states = [SUCCEEDED] * STANDING + [GOING] * going
    compute = SimpleNamespace(
        scale_set=lambda pool: ScaleSet(pool.resource, 6, "etag", flexible=False, provisioning_state=SUCCEEDED),
        instances=lambda _: [vm(number, state) for number, state in enumerate(states)],
    )
    pool = parse_config(POOLS).pool("spot")
    world = SimpleNamespace(pool=lambda *_: pool, compute_of=lambda _: compute, quota=lambda *_: None)
    return read_pool(cast("World", world), {**ORDER, "phantom": 2, **order})


def test_a_write_that_would_shrink_the_set_waits_for_the_vms_that_are_being_deleted() -> None:
    answer = read(going=2, add=1)
    assert (answer["ok"], answer["kind"]) == (False, LATER)
    assert "2 VMs of spot are still being deleted" in answer["reason"]


@pytest.mark.parametrize(("going", "add"), [(0, 1), (2, 2)])
def test_where_none_is_being_deleted_or_the_set_does_not_shrink_it_does_not_wait(
    monkeypatch: pytest.MonkeyPatch, going: int, add: int
) -> None:
    monkeypatch.setattr("functions.pools.allowed_of", lambda *_: {"may_add": add})
    answer = read(going=going, add=add)
    assert (answer["size"], answer["may_add"]) == (STANDING, add)
