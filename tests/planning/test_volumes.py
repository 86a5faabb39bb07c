"""Plans for pods with volumes: zones, and how many disks a node takes."""

from dataclasses import replace

import pytest

from shared.model import BoundPods, NodeSelectorTerm, Requirement, VolumePlace
from shared.planning.plan import plan
from shared.sku_catalogue import KNOWN_SKUS, data_disks
from tests.builders import NOTHING, NOW, bound, config, idle, node, pods, pool, shape, snapshot

DISK_ZONE = "topology.disk.csi.azure.com/zone"
ZONE = "topology.kubernetes.io/zone"
DISKS = "attachable-volumes-csi-disk.csi.azure.com"
FILES = "attachable-volumes-csi-file.csi.azure.com"


def in_zone(number, key=DISK_ZONE):
    term = NodeSelectorTerm((Requirement(key, "In", (f"westeurope-{number}",)),), ())
    return VolumePlace("VolumeBinding: a volume", (term,))


def with_disks(number, cpu=100, name=DISKS, **more):
    return shape(cpu=cpu, extra={name: number}, **more)


def planned(*pending, pools=None, nodes=()):
    return plan(snapshot(*pending, nodes=nodes), config(*(pools or [pool()])), NOTHING, NOW)


def bought(made):
    return {delta.pool: delta.add for delta in made.deltas}


# Zones


def test_a_pod_with_a_zonal_disk_gets_a_node_of_that_zone():
    pools = [pool("one", zones=("1",), price=0.1), pool("two", zones=("2",))]
    assert bought(planned(pods("a", 3, shape(cpu=1000, volumes=(in_zone(2),))), pools=pools)) == {"two": 1}


def test_a_pool_over_several_zones_does_not_serve_a_zonal_disk():
    made = planned(pods("a", 1, shape(volumes=(in_zone(1),))), pools=[pool(zones=("1", "2"))])
    assert made.unserved[0].reasons == {"general": "ZoneNotChoosable: one pool per zone serves it"}


def test_a_pool_without_zones_does_not_serve_a_zonal_disk_but_a_regional_one():
    made = planned(pods("a", 1, shape(volumes=(in_zone(1),))))
    assert made.unserved[0].reasons["general"].startswith("VolumeBinding: ")
    term = NodeSelectorTerm((Requirement(DISK_ZONE, "In", ("",)),), ())
    assert bought(planned(pods("a", 1, shape(volumes=(VolumePlace("VolumeBinding", (term,)),))))) == {"general": 1}


def test_a_node_that_just_joined_counts_for_zonal_disks_before_the_driver_has_labelled_it():
    young = node("n1", labels={ZONE: "westeurope-1"}, created_at=NOW)
    made = planned(pods("a", 1, shape(cpu=1000, volumes=(in_zone(1),))), pools=[pool(zones=("1",))], nodes=[young])
    assert bought(made) == {}


def test_a_claim_that_no_node_can_help_is_the_reason_on_every_pool():
    waits = shape(cpu=99_000, volumes=(VolumePlace("VolumeBinding: claim default/data does not exist"),))
    made = planned(pods("a", 2, waits), pools=[pool("one"), pool("two")], nodes=[node("n1")])
    assert made.unserved[0].reasons == dict.fromkeys(("one", "two"), "VolumeBinding: claim default/data does not exist")


def test_a_spread_counts_all_zones_though_the_disk_is_in_one():
    """A volume's zone is no part of the pod's own affinity, by which a spread finds its domains."""
    from shared.model import PodSelector, Spread  # noqa: PLC0415 - beside the one test that needs them

    everything = PodSelector(("default",), ())
    by_zone = Spread(everything, ZONE, 1)
    running = shape(cpu=100, namespace="default")
    waiting = shape(cpu=100, namespace="default", spread=(by_zone,), volumes=(in_zone(1),))
    labels = [{ZONE: f"westeurope-{n}", DISK_ZONE: f"westeurope-{n}"} for n in (1, 2)]
    nodes = [node("n1", labels=labels[0], holds=[bound("r", 1, running)]), node("n2", labels=labels[1])]
    made = planned(pods("a", 1, waiting), pools=[pool(zones=("1",))], nodes=nodes)
    assert made.fits_existing == ()
    assert made.unserved[0].reasons["general"].startswith("PodTopologySpread: ")


# How many


def test_no_more_disks_are_planned_onto_a_new_node_than_its_size_takes():
    assert bought(planned(pods("a", 9, with_disks(1)), pools=[pool(sku="Standard_D2s_v5")])) == {"general": 3}


def test_a_pod_with_more_disks_than_any_node_takes_is_told_the_figures():
    made = planned(pods("a", 1, with_disks(5)), pools=[pool(sku="Standard_D2s_v5")])
    assert made.unserved[0].reasons == {
        "general": "NodeVolumeLimits: needs 5 volumes of disk.csi.azure.com, a new node can attach 4"
    }


def test_of_a_size_that_nobody_knows_two_disks_per_core_and_at_most_16_are_assumed():
    assert bought(planned(pods("a", 16, with_disks(1)), pools=[pool(cpu=4000)])) == {"general": 2}
    assert bought(planned(pods("a", 17, with_disks(1)), pools=[pool(cpu=64_000)])) == {"general": 2}


def test_what_the_pools_real_nodes_take_is_better_known():
    full = node("n1", holds=[bound("b", 1, with_disks(0, cpu=4000))])
    real = replace(full, allocatable={**full.allocatable, DISKS: 3})
    made = planned(pods("a", 6, with_disks(1)), pools=[pool(sku="Standard_D2s_v5")], nodes=[real])
    assert bought(made) == {"general": 2}


def test_what_the_pools_file_says_is_best_known():
    told = pool(sku="Standard_D2s_v5", shape={"cpu": 4000, "memory": 2**34, "pods": 110, DISKS: 1})
    assert bought(planned(pods("a", 2, with_disks(1)), pools=[told])) == {"general": 2}


def test_a_driver_without_a_limit_attaches_whatever_is_asked():
    assert bought(planned(pods("a", 40, with_disks(3, cpu=1, name=FILES)))) == {"general": 1}


@pytest.mark.parametrize(("taken", "fits"), [(2, 1), (3, 1), (4, 0)])
def test_a_node_that_is_there_takes_as_many_as_are_left(taken, fits):
    view = node("n1")
    view = replace(view, allocatable={**view.allocatable, DISKS: 4}, requested={**view.requested, DISKS: taken})
    made = planned(pods("a", 1, with_disks(1)), nodes=[view])
    assert len(made.fits_existing) == fits


def test_nodes_with_and_without_a_limit_stand_side_by_side():
    limited = node("n1")
    limited = replace(limited, allocatable={**limited.allocatable, DISKS: 1})
    made = planned(pods("a", 3, with_disks(1)), nodes=[limited, node("n2")])
    assert sum(len(each.pods) for each in made.fits_existing) == 3
    assert bought(made) == {}


@pytest.mark.parametrize("sku", KNOWN_SKUS)
def test_every_size_of_the_catalogue_says_how_many_disks_it_takes(sku):
    found = data_disks(sku)
    assert found is not None
    assert 4 <= found <= 32


# Retiring


def emptied(holds, *others, labels=None):
    return planned(nodes=[idle("n1", labels=labels or {}, holds=holds), *others])


def test_a_pod_with_a_zonal_disk_moves_only_within_its_zone():
    disk = [bound("a", 1, shape(cpu=100, volumes=(in_zone(1),)))]
    elsewhere, near = node("n2", labels={DISK_ZONE: "westeurope-2"}), node("n3", labels={DISK_ZONE: "westeurope-1"})
    assert emptied(disk, elsewhere).kept == {"n1": "default/a-0: fits no node that stays"}
    made = emptied(disk, elsewhere, near)
    assert [move.target for each in made.retirements for move in each.moves] == ["n3"]


def test_a_pod_whose_claim_is_in_trouble_stays_where_it_runs():
    lost = VolumePlace("VolumeBinding: claim default/data is being deleted")
    made = emptied([BoundPods(shape(volumes=(lost,)), pods("a", 1, shape()).pods, bound("a", 1, shape()).movability)])
    assert made.kept == {"n1": "default/a-0: VolumeBinding: claim default/data is being deleted"}


def test_disks_that_do_not_fit_on_the_nodes_that_stay_hold_a_node():
    other = node("n2")
    other = replace(other, allocatable={**other.allocatable, DISKS: 4}, requested={**other.requested, DISKS: 3})
    assert emptied([bound("a", 2, with_disks(1))], other).kept == {"n1": "default/a-1: fits no node that stays"}
    assert [each.node for each in emptied([bound("a", 1, with_disks(1))], other).retirements] == ["n1"]
