"""Every promised default, pinned: changing one changes what running clusters do."""

from __future__ import annotations

import pytest

from shared.model import Mode, PoolKind, Priority
from shared.settings.config import json_schema, parse_config

CONFIG = parse_config("{cluster: c, pools: [{name: p, max: 1, shape: {cpu: 1, memory: 1Gi}}]}")
POOL = CONFIG.pools[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (CONFIG.mode, Mode.OBSERVE),
        (CONFIG.scale_down.idle_after, 600),
        (CONFIG.scale_down.utilization_below, 0.5),
        (CONFIG.scale_down.drain_timeout, 900),
        (CONFIG.scale_down.max_parallel_fraction, 0.1),
        (CONFIG.scale_down.replace_saving, 0),
        (CONFIG.timing.node_join_timeout, 900),
        (CONFIG.timing.debounce, 1),
        (CONFIG.timing.lead_lease, 120),
        (POOL.kind, PoolKind.VMSS),
        (POOL.resource, "p"),
        (POOL.priority, Priority.REGULAR),
        (POOL.price, None),
        (POOL.minimum, 0),
        (POOL.zones, ()),
        (POOL.labels, {}),
        (POOL.taints, ()),
        (POOL.fallback, ()),
        (POOL.template, ""),
        (POOL.reserved, {}),
        (POOL.shape["pods"], 110),
        (POOL.azure, None),
        (POOL.quota_family, ""),
        (POOL.vcpus, 0),
        (POOL.placement_groups, None),
        (POOL.headroom, 0),
        (CONFIG.mixes, ()),
        (CONFIG.headroom.percent, 0),
        (CONFIG.headroom.pools, ()),
        (CONFIG.priority_cutoff, -10),
    ],
)
def test_a_default_is_as_promised(value, expected):
    assert value == expected


def described(schema):
    for name, field in schema.get("properties", {}).items():
        yield name, field
        yield from described(field)
        yield from described(field.get("items", {}))


def test_every_key_has_a_sentence_and_every_default_its_reason():
    for name, field in described(json_schema()):
        assert len(field["description"]) > 10, name
        if field.get("default") not in (None, {}):
            assert "Default" in field["description"], name
            assert ":" in field["description"], name
