"""The keys that bound what is bought: what they mean, and what is wrong with them."""

import pytest

from shared.model import Headroom, Mix, PlacementGroups
from shared.settings.config import ConfigError, parse_config
from shared.sku_catalogue import KNOWN_SKUS, quota_family, vcpus

FILE = """
cluster: c
pools:
  - {name: spot, max: 9, sku: Standard_NC6s_v3, priority: Spot, placement_groups: single, headroom: 2}
  - {name: regular, max: 9, sku: Standard_NC6s_v3, quota: {family: standardNCFamily, vcpus: 7}}
mixes: [{pools: [spot, regular], on_demand_floor: 2, spot_max_share: 0.7}]
headroom: {percent: 10, pools: [regular]}
priority_cutoff: -5
"""


def problems(text):
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    return {problem.path: str(problem) for problem in caught.value.problems}


def test_every_key_is_read():
    config = parse_config(FILE)
    spot, regular = config.pools
    assert (spot.quota_family, spot.vcpus, spot.ceiling, spot.headroom) == ("standardNCSv3Family", 6, 9, 2)
    assert spot.placement_groups is PlacementGroups.SINGLE
    assert (regular.quota_family, regular.vcpus) == ("standardNCFamily", 7)
    assert config.mixes == (Mix(("spot", "regular"), 2, 0.7),)
    assert (config.headroom, config.priority_cutoff) == (Headroom(10.0, ("regular",)), -5)


@pytest.mark.parametrize(
    ("old", "new", "path", "said"),
    [
        ("[spot, regular], on", "[spot, spots], on", "mixes[0].pools[1]", "no pool of this file"),
        ("[spot, regular], on", "[spot], on", "mixes[0].pools", "no pool of priority Regular"),
        ("[spot, regular], on", "[regular], on", "mixes[0].pools", "no pool of priority Spot"),
        ("0.7}]", "0.7}, {pools: [spot]}]", "mixes[1].pools[0]", "is in mixes[0] already"),
        ("0.7", "70", "mixes[0].spot_max_share", "from 0 to 1"),
        ("floor: 2", "floor: -2", "mixes[0].on_demand_floor", "whole number"),
        ("pools: [regular]}", "pools: [none]}", "headroom.pools[0]", "no pool of this file"),
        ("headroom: 2", "headroom: 10", "pools[0].headroom", "above max 9"),
        ("single", "one", "pools[0].placement_groups", "one of single"),
        ("placement_groups: single", "kind: vm, placement_groups: single", "pools[0].placement_groups", "vmss only"),
        ("vcpus: 7", "vcpus: 0", "pools[1].quota.vcpus", "whole number"),
        ("cutoff: -5", "cutoff: low", "priority_cutoff", "whole number"),
    ],
)
def test_what_is_wrong_is_told_by_path(old, new, path, said):
    assert said in problems(FILE.replace(old, new))[path]


def test_every_known_size_tells_its_quota():
    assert all(quota_family(sku) and vcpus(sku) for sku in KNOWN_SKUS)
    assert quota_family("Standard_D4ads_v5") == "standardDADSv5Family"
    assert quota_family("Standard_NC4as_T4_v3") == "Standard NCASv3_T4 Family"


@pytest.mark.parametrize("sku", ["Standard_E16-8s_v5", "Standard_X", "", "mine"])
def test_a_name_that_tells_no_quota_is_not_guessed_at(sku):
    assert quota_family(sku) == ""
