"""Small random clusters whose pods have rules about each other, judged by a literal reading of kube-scheduler."""

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.model import DaemonShape, PodSelector, PodTerm, Requirement, Spread, Upcoming
from shared.planning.plan import plan
from tests.builders import NOW, Ledger, bound, config, needs, node, pods, pool, shape, snapshot, timedelta
from tests.planning.checker import node_holds, problems
from tests.planning.rules_oracle import Host, bind_all, disturbed, unbindable

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"
KEYS = st.sampled_from([HOST, HOST, HOST, ZONE, ZONE, RACK])
SELECTORS = st.builds(
    PodSelector,
    st.sampled_from([("default",)] * 4 + [("other",), None]),
    st.sampled_from(
        [
            (Requirement("app", "In", ("x",)),),
            (Requirement("app", "In", ("x",)),),
            (Requirement("app", "In", ("y",)),),
            (Requirement("app", "In", ("x", "y")),),
            (Requirement("app", "NotIn", ("x",)),),
            (Requirement("app", "Exists", ()),),
            (Requirement("app", "DoesNotExist", ()),),
            (),
        ]
    ),
)
TERMS = st.builds(PodTerm, SELECTORS, KEYS)
SPREADS = st.builds(
    Spread,
    SELECTORS,
    KEYS,
    st.sampled_from([1, 1, 2]),
    st.sampled_from([1, 1, 1, 2, 3]),
    st.sampled_from([True, True, False]),
    st.sampled_from([False, False, True]),
)


def seldom(things, most=1):
    return st.just(()) | st.lists(things, min_size=1, max_size=most).map(tuple)


SHAPES = st.builds(
    lambda cpu, app, near, apart, spread, selector, affinity, space, priority: shape(
        cpu,
        namespace=space,
        labels=(("app", app),) if app else (),
        near=near,
        apart=apart,
        spread=spread,
        node_selector=selector,
        affinity=affinity,
        priority=priority,
    ),
    st.sampled_from([1, 1, 2, 3]),
    st.sampled_from(["x", "x", "y", ""]),
    seldom(TERMS),
    seldom(TERMS, 2),
    seldom(SPREADS, 2),
    st.sampled_from([()] * 5 + [(("disk", "a"),)]),
    st.sampled_from([None] * 5 + [(needs((ZONE, "In", ("a", "b"))),)]),
    st.sampled_from(["default", "default", "default", "other"]),
    st.sampled_from([0, 0, 0, 10]),
)
POOLS = st.lists(
    st.builds(
        lambda cpu, price, zone, disk, rack, most, location: {
            "shape": {"cpu": cpu, "memory": 1, "pods": 6},
            "price": price,
            "maximum": most,
            "labels": {
                **({ZONE: zone} if zone else {}),
                **({"disk": disk} if disk else {}),
                **({RACK: rack} if rack else {}),
            },
            "zones": ("1", "2") if location else (),
        },
        st.integers(2, 8),
        st.sampled_from([0.1, 0.2, 0.4]),
        st.sampled_from(["a", "b", "c", "c", ""]),
        st.sampled_from(["a", ""]),
        st.sampled_from(["r1", "r2", ""]),
        st.sampled_from([9, 9, 4, 1, 0]),
        st.sampled_from([False] * 5 + [True]),
    ),
    min_size=1,
    max_size=3,
).map(lambda fields: [pool(f"pool-{number}", **each) for number, each in enumerate(fields)])


@st.composite
def clusters(draw):
    pools = draw(POOLS)
    pending = [
        pods(f"p{number}", draw(st.integers(1, 6)), each)
        for number, each in enumerate(draw(st.lists(SHAPES, min_size=1, max_size=4, unique=True)))
    ]
    nodes = []
    for number in range(draw(st.integers(0, 4))):
        of = draw(st.sampled_from(pools))
        running = [bound(f"r{number}-{one}", 1, draw(SHAPES)) for one in range(draw(st.integers(0, 2)))]
        if sum(dict(each.shape.requests)["cpu"] for each in running) > of.shape["cpu"]:
            running = []
        zone = (
            {ZONE: draw(st.sampled_from(["westeurope-1", "westeurope-2"]))}
            if of.zones and ZONE not in of.labels
            else {}
        )
        flags = {"unschedulable": draw(st.sampled_from([False] * 4 + [True])), "host_ports": ()}
        labels = {**node("n", of).labels, HOST: f"n{number}", **zone}
        nodes.append(node(f"n{number}", of, running, labels=labels, **flags))
    agent = shape(cpu=1, namespace="default", labels=(("app", "y"),))
    daemons = [DaemonShape("agent", agent)] * draw(st.sampled_from([0, 0, 1]))
    coming = draw(st.lists(st.sampled_from([each.name for each in pools]), max_size=1))
    upcoming = tuple(Upcoming(name, 1, NOW + timedelta(minutes=5)) for name in coming)
    return snapshot(*pending, nodes=nodes, daemons=daemons), config(*pools), Ledger(upcoming=upcoming)


class World:
    """Everything that stands once the plan is carried out, with the choices that Azure has left."""

    def __init__(self, cluster, made, extra=None):
        self.snapshot, self.config, self.ledger = cluster
        self.made, self.extra = made, extra
        self.shapes = {ref: each.shape for each in self.snapshot.pending for ref in each.pods}

    def choices(self):
        """One combination of zones after the other."""
        uncertain = [of for of in self._new_pools() if len(zones_of(of)) > 1]
        return itertools.product(*(zones_of(of) for of in uncertain)) if len(uncertain) < 5 else []

    def _new_pools(self):
        yield from (self.config.pool(each.pool) for each in self.ledger.upcoming)
        yield from (self.config.pool(delta.pool) for delta in self.made.deltas for _ in delta.nodes)
        if self.extra:
            yield self.extra

    def hosts(self, zones):
        """Nodes there, coming and new; then which pods of the plan are to go where."""
        hosts = [
            Host(each.name, dict(each.labels), each.taints, [b.shape for b in each.bound for _ in b.pods])
            for each in self.snapshot.nodes
        ]
        by_name = {host.name: host for host in hosts}
        zones, pinned = iter(zones), []
        groups = [(each, None) for each in self.ledger.upcoming]
        groups += [(delta, new) for delta in self.made.deltas for new in delta.nodes]
        groups += [(self.extra, None)] if self.extra else []
        for number, (source, new) in enumerate(groups):
            of = self.config.pool(getattr(source, "pool", "")) or source
            labels = {HOST: f"new-{number}", "sluice.io/pool": of.name, **of.labels}
            if len(zones_of(of)) > 1:
                labels[ZONE] = next(zones)
            daemons = [
                each.shape
                for each in self.snapshot.daemons
                if node_holds(labels, of.taints, of.allocatable, [each.shape])
            ]
            host = Host(f"new-{number}", labels, of.taints, daemons)
            hosts.append(host)
            by_name.setdefault(f"coming {of.name}", host)
            pinned += [(self.shapes[ref], host) for ref in (new.pods if new else ())]
        for each in self.made.fits_existing:
            pinned += [(self.shapes[ref], by_name[each.target]) for ref in each.pods]
        for each in self.made.fits_upcoming:
            pinned += [(self.shapes[ref], by_name[f"coming {each.target}"]) for ref in each.pods]
        return hosts, pinned


def zones_of(of):
    return ["westeurope-1", "westeurope-2"] if of.zones and ZONE not in of.labels else [of.labels.get(ZONE)]


def rules_broken(cluster, made):
    for zones in World(cluster, made).choices():
        hosts, pinned = World(cluster, made).hosts(zones)
        stuck = bind_all(pinned, hosts)
        yield from (f"{pod} can't be bound to {host.name} {zones}" for pod, host in stuck)
        if not stuck:
            yield from (f"{pod} is disturbed on {host.name} {zones}" for pod, host in disturbed(pinned, hosts))


def room_overlooked(cluster, made):
    """Pods that are refused although a node would take them once the rest is bound."""
    snapshot_, config_, ledger = cluster
    if any(len(zones_of(of)) > 1 for of in config_.pools):
        return  # what may be in several zones is counted at its worst: more is refused than need be
    world = World(cluster, made)
    for group in made.unserved:
        if any(reason.startswith("Waits: ") for reason in group.reasons.values()):
            continue  # some order of binding might do, another would not: it is for the next plan
        newcomer = world.shapes[group.pods[0]]
        hosts, _ = world.hosts(())
        for number, host in enumerate(hosts):
            if takes(cluster, made, host, newcomer) and binds_with(World(cluster, made), newcomer, number):
                yield f"{group.pods[0]} is unserved, yet {host.name} would take it"
        for of in config_.pools:
            size = sum(each.pool == of.name for each in (*snapshot_.nodes, *ledger.upcoming))
            size += sum(delta.add for delta in made.deltas if delta.pool == of.name)
            grown = World(cluster, made, of)
            host = grown.hosts(())[0][-1]
            if size < of.maximum and takes(cluster, made, host, newcomer) and binds_with(grown, newcomer, -1):
                yield f"{group.pods[0]} is unserved, yet a new node of {of.name} would take it"


def takes(cluster, made, host, newcomer):
    snapshot_, config_, _ = cluster
    there = {each.name: each for each in snapshot_.nodes}
    if host.name in there:
        if there[host.name].unschedulable:
            return False
        free = there[host.name].allocatable
    else:
        free = config_.pool(host.labels["sluice.io/pool"]).allocatable
    world = World(cluster, made)
    hosts, pinned = world.hosts(())
    mine = next((each for each in hosts if each.name == host.name), host)
    on_it = [*mine.pods, *(pod for pod, where in pinned if where.name == host.name)]
    stripped = [shape(extra=dict(pod.requests)) for pod in on_it]
    return node_holds(host.labels, host.taints, free, [*stripped, newcomer])


def binds_with(world, newcomer, number):
    hosts, pinned = world.hosts(())
    if bind_all(pinned, hosts) or unbindable([(newcomer, hosts[number])], hosts):
        return False
    return not disturbed([*pinned, (newcomer, hosts[number])], hosts)


@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(clusters())
def test_every_pod_of_a_plan_can_be_bound_and_nobody_is_refused_who_could_be(cluster):
    snapshot_, config_, ledger = cluster
    made = plan(snapshot_, config_, ledger, NOW)
    assert [*problems_of_room(cluster, made), *rules_broken(cluster, made), *room_overlooked(cluster, made)] == []


def problems_of_room(cluster, made):
    """What the checker that knows no rules between pods says against the placements."""
    return [each for each in problems(*cluster, made) if "is unserved" not in each]
