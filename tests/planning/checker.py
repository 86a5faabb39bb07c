"""Judges a plan by brute force, pod by pod, sharing no code with the planner."""

from __future__ import annotations

from collections import Counter

from shared.model import Config, Ledger, NodeView, Plan, PodRef, PodShape, Pool, Snapshot

HARD = ("NoSchedule", "NoExecute")


def problems(snapshot: Snapshot, config: Config, ledger: Ledger, plan: Plan) -> list[str]:
    """Everything that is wrong with the plan; Ledger deadlines are taken as not reached."""
    return [
        *_pods_counted(snapshot, plan),
        *_new_nodes(snapshot, config, plan),
        *_existing(snapshot, config, plan),
        *_limits(snapshot, config, ledger, plan),
        *_unserved(snapshot, config, ledger, plan),
    ]


def shapes_of(snapshot: Snapshot) -> dict[PodRef, PodShape]:
    """Every pod that waits."""
    return {ref: each.shape for each in snapshot.pending for ref in each.pods}


def node_holds(labels, taints, free, pods) -> bool:
    """Whether all these pods fit together on a node with that much free."""
    used: Counter[str] = Counter()
    ports = []
    for pod in pods:
        if any(labels.get(key) != value for key, value in pod.node_selector):
            return False
        if pod.affinity is not None and not any(term_holds(term, labels) for term in pod.affinity):
            return False
        if any(taint.effect in HARD and not any(forgives(t, taint) for t in pod.tolerations) for taint in taints):
            return False
        used.update(dict(pod.requests))
        used["pods"] += 1
        for port in pod.host_ports:
            if any(
                (port.protocol, port.port) == (other.protocol, other.port)
                and (port.ip == other.ip or "" in (port.ip, other.ip))
                for other in ports
            ):
                return False
        ports.extend(pod.host_ports)
    return all(amount <= free.get(name, 0) for name, amount in used.items())


def term_holds(term, labels) -> bool:
    for requirement in term.match_expressions:
        present = requirement.key in labels
        listed = labels.get(requirement.key) in requirement.values
        good = {"In": listed, "NotIn": not listed, "Exists": present, "DoesNotExist": not present}
        if not good[requirement.operator]:
            return False
    return bool(term.match_expressions)


def forgives(toleration, taint) -> bool:
    return (
        toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (toleration.operator == "Exists" or toleration.value == taint.value)
    )


def _new_labels(pool: Pool) -> dict[str, str]:
    return {"kubernetes.io/hostname": "brand-new", "sluice.io/pool": pool.name, **pool.labels}


def _left_of_new_node(pool: Pool, snapshot: Snapshot) -> tuple[dict[str, int], list[PodShape]]:
    """DaemonSet pods that a new node gets come first; ports are not used by the daemons of these tests."""
    daemons: list[PodShape] = []
    for daemon in snapshot.daemons:
        if node_holds(_new_labels(pool), pool.taints, pool.allocatable, [*daemons, daemon.shape]):
            daemons.append(daemon.shape)
    return pool.allocatable, daemons


def _new_node_holds(pool: Pool, snapshot: Snapshot, pods) -> bool:
    free, daemons = _left_of_new_node(pool, snapshot)
    return node_holds(_new_labels(pool), pool.taints, free, [*daemons, *pods])


def _free(node: NodeView) -> dict[str, int]:
    return {name: amount - node.requested.get(name, 0) for name, amount in node.allocatable.items()}


def _pods_counted(snapshot: Snapshot, plan: Plan):
    named = Counter(
        ref
        for group in (
            *(node.pods for delta in plan.deltas for node in delta.nodes),
            *(each.pods for each in plan.fits_existing + plan.fits_upcoming + plan.reuse),
            *(each.pods for each in plan.unserved),
        )
        for ref in group
    )
    waiting = Counter(shapes_of(snapshot))
    if named != Counter(dict.fromkeys(waiting, 1)):
        yield f"pods named otherwise than once each: {named - waiting} {waiting - named}"


def _new_nodes(snapshot: Snapshot, config: Config, plan: Plan):
    shapes = shapes_of(snapshot)
    for delta in plan.deltas:
        pool = config.pool(delta.pool)
        for node in delta.nodes:
            if not node.pods:
                yield f"an empty node of {pool.name}"
            if not _new_node_holds(pool, snapshot, [shapes[ref] for ref in node.pods]):
                yield f"a new node of {pool.name} does not hold {[str(ref) for ref in node.pods]}"


def _existing(snapshot: Snapshot, config: Config, plan: Plan):
    shapes = shapes_of(snapshot)
    nodes = {node.name: node for node in snapshot.nodes}
    for each in plan.fits_existing:
        node = nodes[each.target]
        if node.unschedulable or not node.ready:
            yield f"{node.name} takes no pods"
        if not node_holds(node.labels, node.taints, _free(node), [shapes[ref] for ref in each.pods]):
            yield f"{node.name} does not hold {[str(ref) for ref in each.pods]}"
    for each in plan.fits_upcoming:
        pool = config.pool(each.target)
        if not all(_new_node_holds(pool, snapshot, [shapes[ref]]) for ref in each.pods):
            yield f"a node to come of {each.target} does not hold one of {[str(ref) for ref in each.pods]}"


def _limits(snapshot: Snapshot, config: Config, ledger: Ledger, plan: Plan):
    for pool in config.pools:
        if _size(snapshot, ledger, plan, pool) > max(pool.maximum, _size(snapshot, ledger, None, pool)):
            yield f"{pool.name} grows above its maximum of {pool.maximum}"


def _size(snapshot: Snapshot, ledger: Ledger, plan: Plan | None, pool: Pool) -> int:
    there = sum(node.pool == pool.name for node in snapshot.nodes)
    coming = sum(each.count for each in ledger.upcoming if each.pool == pool.name)
    return (
        there + coming + sum(delta.add for delta in plan.deltas if delta.pool == pool.name) if plan else there + coming
    )


def _unserved(snapshot: Snapshot, config: Config, ledger: Ledger, plan: Plan):
    shapes = shapes_of(snapshot)
    for group in plan.unserved:
        if set(group.reasons) != {pool.name for pool in config.pools}:
            yield f"reasons for {sorted(group.reasons)}"
        for ref in group.pods:
            for pool in config.pools:
                full = _size(snapshot, ledger, plan, pool) >= pool.maximum
                if not full and _new_node_holds(pool, snapshot, [shapes[ref]]):
                    yield f"{ref} is unserved, yet {pool.name} would take it"
            yield from _room_overlooked(snapshot, config, plan, shapes, ref)


def _room_overlooked(snapshot: Snapshot, config: Config, plan: Plan, shapes, ref):
    onto = {each.target: [shapes[other] for other in each.pods] for each in plan.fits_existing}
    for node in snapshot.nodes:
        usable = node.ready and not node.unschedulable
        if usable and node_holds(node.labels, node.taints, _free(node), [*onto.get(node.name, []), shapes[ref]]):
            yield f"{ref} is unserved, yet {node.name} has room"
    for delta in plan.deltas:
        for node in delta.nodes:
            pods = [*(shapes[other] for other in node.pods), shapes[ref]]
            if _new_node_holds(config.pool(delta.pool), snapshot, pods):
                yield f"{ref} is unserved, yet a new node of {delta.pool} has room"
