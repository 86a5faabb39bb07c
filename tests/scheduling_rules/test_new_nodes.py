"""What a node of a pool looks like before it exists."""

from shared.model import DaemonShape, HostPort, Taint, Toleration
from shared.nodes.template_node import template_of, template_refusal
from tests.builders import GIB, GPU, GPU_TAINT, needs, pairs, pool, shape

ZONE = "topology.kubernetes.io/zone"
EVERYWHERE = (Toleration("", "Exists", "", ""),)


def refusal(of_shape, of_pool, *daemons):
    return template_refusal(of_shape, template_of(of_pool, daemons))


def test_a_new_node_carries_the_labels_that_every_node_gets():
    labels = template_of(pool("gpu-spot", zones=("2",)), ()).grounds[0].labels
    assert labels["kubernetes.io/os"] == "linux"
    assert labels["kubernetes.io/arch"] == "amd64"
    assert labels["node.kubernetes.io/instance-type"] == "Standard_gpu-spot"
    assert labels["topology.kubernetes.io/region"] == "westeurope"
    assert labels[ZONE] == "westeurope-2"
    assert labels["sluice.io/pool"] == "gpu-spot"


def test_the_pools_own_labels_win():
    arm = pool(labels={"kubernetes.io/arch": "arm64", "team": "ml"})
    assert refusal(shape(node_selector=(("kubernetes.io/arch", "arm64"), ("team", "ml"))), arm) is None


def test_no_pod_can_ask_for_a_host_that_does_not_exist_yet():
    by_host = shape(node_selector=pairs(**{"kubernetes.io/hostname": "node-1"}))
    by_name = shape(affinity=(needs(fields=[("metadata.name", "In", ("node-1",))]),))
    assert refusal(by_host, pool()).startswith("NodeAffinity: ")
    assert refusal(by_name, pool()).startswith("NodeAffinity: ")


def test_a_pod_that_avoids_a_host_is_served_by_a_new_one():
    elsewhere = shape(affinity=(needs(("kubernetes.io/hostname", "NotIn", ("node-1",))),))
    assert refusal(elsewhere, pool()) is None


def test_a_pod_for_one_zone_is_served_by_a_pool_of_that_zone_alone():
    in_zone_1 = shape(node_selector=((ZONE, "westeurope-1"),))
    assert refusal(in_zone_1, pool(zones=("1",))) is None
    assert refusal(in_zone_1, pool(zones=("2",))).startswith("NodeAffinity: ")
    assert refusal(in_zone_1, pool(zones=("1", "2"))) == "ZoneNotChoosable: one pool per zone serves it"
    assert refusal(in_zone_1, pool(zones=("2", "3"))).startswith("NodeAffinity: ")


def test_a_pod_that_all_zones_of_a_pool_suit_does_not_mind_which_one_azure_chooses():
    anywhere = shape(affinity=(needs((ZONE, "In", ("westeurope-1", "westeurope-2"))),))
    assert refusal(anywhere, pool(zones=("1", "2"))) is None


def test_daemon_sets_take_their_room_first():
    agent = DaemonShape("agent", shape(cpu=500, memory=GIB, tolerations=EVERYWHERE))
    assert refusal(shape(cpu=3500), pool(cpu=4000), agent) is None
    reason = refusal(shape(cpu=3501), pool(cpu=4000), agent)
    assert reason == "NodeResourcesFit: needs 3501m cpu, a new node has 3500m"


def test_daemon_sets_take_places_and_ports():
    agent = DaemonShape("agent", shape(host_ports=(HostPort("", "TCP", 9100),)))
    template = template_of(pool(), (agent,))
    assert template.free["pods"] == 109
    assert template_refusal(shape(host_ports=(HostPort("", "TCP", 9100),)), template).startswith("NodePorts: ")


def test_daemon_sets_that_the_node_does_not_suit_take_nothing():
    tainted = pool(cpu=4000, taints=(GPU_TAINT,))
    intolerant = DaemonShape("intolerant", shape(cpu=1000))
    elsewhere = DaemonShape("elsewhere", shape(cpu=1000, node_selector=pairs(disk="ssd"), tolerations=EVERYWHERE))
    too_large = DaemonShape("too-large", shape(cpu=5000, tolerations=EVERYWHERE))
    assert template_of(tainted, (intolerant, elsewhere, too_large)).free["cpu"] == 4000


def test_reservations_are_taken_off():
    small = pool(cpu=4000, reserved={"cpu": 200})
    assert refusal(shape(cpu=3801), small) == "NodeResourcesFit: needs 3801m cpu, a new node has 3800m"


def test_a_rule_that_is_not_modelled_refuses_by_its_name_before_anything_else():
    spread = shape(cpu=99_000, not_modelled=("PodTopologySpread", "VolumeBinding"))
    assert refusal(spread, pool()) == "NotModelled: PodTopologySpread, VolumeBinding"


def test_reasons_come_in_the_order_in_which_a_person_would_ask():
    wrong_in_all = {"cpu": 99_000, "node_selector": pairs(disk="ssd")}
    tainted = pool(taints=(Taint("team", "ml", "NoSchedule"),))
    assert refusal(shape(**wrong_in_all), tainted).startswith("NodeAffinity: ")
    assert refusal(shape(cpu=99_000), tainted).startswith("TaintToleration: ")
    assert refusal(shape(cpu=99_000, tolerations=EVERYWHERE), tainted).startswith("NodeResourcesFit: ")


def test_a_gpu_pool_names_its_gpus():
    assert refusal(shape(gpu=2), pool(gpu=1)) == f"NodeResourcesFit: needs 2 {GPU}, a new node has 1"
