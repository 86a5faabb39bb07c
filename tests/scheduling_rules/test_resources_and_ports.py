"""What is left on a node: NodeResourcesFit and NodePorts."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model import HostPort
from shared.packing.axes import Axes
from shared.rules.predicates import node_ports, node_resources_fit, ports_collide
from tests.builders import GIB, GPU, shape


def test_a_pod_without_requests_fits_wherever_there_is_a_place_for_a_pod():
    assert node_resources_fit(shape(), {"pods": 1}) is None
    assert node_resources_fit(shape(), {"pods": 0}) == "NodeResourcesFit: needs 1 pods, a new node has 0"


def test_a_pod_fits_exactly():
    assert node_resources_fit(shape(cpu=2000, memory=GIB), {"cpu": 2000, "memory": GIB, "pods": 1}) is None


@pytest.mark.parametrize(
    ("request_", "free", "reason"),
    [
        (shape(cpu=2001), {"cpu": 2000}, "NodeResourcesFit: needs 2001m cpu, a new node has 2"),
        (shape(memory=2 * GIB), {"memory": GIB}, "NodeResourcesFit: needs 2Gi memory, a new node has 1Gi"),
        (shape(gpu=2), {GPU: 1}, "NodeResourcesFit: needs 2 nvidia.com/gpu, a new node has 1"),
        (shape(gpu=1), {}, "NodeResourcesFit: needs 1 nvidia.com/gpu, a new node has 0"),
        (shape(cpu=1), {"cpu": -500}, "NodeResourcesFit: needs 1m cpu, a new node has 0"),
    ],
)
def test_a_shortage_is_named_with_its_figures(request_, free, reason):
    assert node_resources_fit(request_, {"pods": 5, **free}) == reason


def test_a_resource_that_is_overcommitted_does_not_concern_who_does_not_ask_for_it():
    assert node_resources_fit(shape(memory=1), {"cpu": -500, "memory": 1, "pods": 1}) is None


@pytest.mark.parametrize(
    ("one", "other", "collide"),
    [
        (("", "TCP", 80), ("", "TCP", 80), True),
        (("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("", "", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
        (("", "TCP", 80), ("", "UDP", 80), False),
        (("", "TCP", 80), ("", "TCP", 81), False),
    ],
)
def test_ports_collide_by_protocol_number_and_address(one, other, collide):
    assert ports_collide(HostPort(*one), HostPort(*other)) is collide
    assert ports_collide(HostPort(*other), HostPort(*one)) is collide


def test_a_taken_port_is_named():
    reason = node_ports(shape(host_ports=(HostPort("", "TCP", 443),)), [HostPort("10.0.0.1", "TCP", 443)])
    assert reason == "NodePorts: host port 443/TCP is taken"


PORTS = st.builds(
    HostPort, st.sampled_from(["", "10.0.0.1", "10.0.0.2"]), st.sampled_from(["TCP", "UDP"]), st.integers(80, 81)
)
PORT_SETS = st.lists(PORTS, max_size=3, unique=True).map(tuple)


@given(st.lists(PORT_SETS, min_size=2, max_size=4, unique=True), PORT_SETS)
def test_the_axes_of_ports_agree_with_the_predicate(port_sets, taken):
    shapes = [shape(host_ports=ports) for ports in port_sets]
    rooms = [({"pods": 10}, taken)]
    axes = Axes(shapes, rooms)
    needs, room = axes.needs(shapes), axes.rooms(rooms)[0]
    for row, each in enumerate(shapes):
        assert bool((needs[row] <= room).all()) is (node_ports(each, taken) is None)
    empty = axes.rooms([({"pods": 10}, ())])[0]
    for (row, each), (other_row, other) in itertools.combinations(enumerate(shapes), 2):
        together = bool((needs[row] + needs[other_row] <= empty).all())
        assert together is (node_ports(each, other.host_ports) is None)
