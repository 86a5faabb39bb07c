"""What is planned can be bound where it is planned; what is refused is refused, on a node that was never used."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from shared.model import Plan
from tests.e2e.scheduler.draws import ZONE, Case, Json, draw, key, node_of, pinned, takes_agent
from tests.e2e.scheduler.hands import NODES, Hands, eventually, messages, pods_path

WAVES = 3
NOT_OF_THE_NODE = ("PoolFull", "Waits", "ZoneNotChoosable", "JointLimit", "Quota")
"""Reasons that speak of a pool or of other pods: one more node would say nothing about them."""


def disagreements(hands: Hands, seed: int) -> list[str]:
    """Where plan and scheduler differ on the cluster of a seed. Leaves the cluster empty."""
    try:
        return _judged(hands, draw(seed))
    finally:
        hands.empty()


def _judged(hands: Hands, case: Case) -> list[str]:
    rng = Random(case.seed + 1_000_000)
    hands.fill(case)
    for pod in case.running:
        hands.create_pod(pod)
    if case.daemon_sets and case.nodes:
        _agents_settle(hands, case)
    there = hands.seen()
    made = case.plan(replace(there, pods=[*there.pods, *case.waiting]))
    new = _new_nodes(hands, case, made, rng)
    if case.daemon_sets and (case.nodes or new):
        _agents_settle(hands, case)
    left = _bind(hands, _pinned(case, made, new))
    found = [f"seed {case.seed}: planned, but not bound: {said}" for said in messages(left)]
    return found + _probed(hands, case, made, rng)


def _bind(hands: Hands, pods: list[Json]) -> list[Json]:
    """Let the scheduler bind them; returns those that it does not.

    A plan says where pods go, not in which order they are tried, and the scheduler forgets to try some again when those
    have come that they waited for: who was refused is made anew behind the others.
    """
    left: list[Json] = []
    for _ in range(WAVES):
        for pod in pods:
            hands.create_pod(pod)
        left = [pod for pod in hands.quiet() if pod["metadata"]["name"].startswith("wait-")]
        names = {key(pod) for pod in left}
        pods = [pod for pod in pods if key(pod) in names]
        if not pods:
            break
        for pod in pods:
            hands.api.delete(f"{pods_path(pod)}/{pod['metadata']['name']}", grace_seconds=0)
    return left


def _agents_settle(hands: Hands, case: Case) -> None:
    """Until each node that is to have the agent has it: rules between pods may count it."""
    (daemon,) = case.daemon_sets
    expected = sum(takes_agent(daemon, node) for node in hands.nodes())

    def spread() -> bool:
        agents = [pod for pod in hands.pods() if pod["metadata"]["name"].startswith("agent-")]
        return len(agents) == expected

    eventually(f"seed {case.seed}: {expected} agents", spread)
    hands.quiet()


def _new_nodes(hands: Hands, case: Case, made: Plan, rng: Random) -> list[list[str]]:
    """Make the nodes that the plan buys; returns their names by delta."""
    names, bodies = [], []
    for delta in made.deltas:
        of = case.config.pool(delta.pool)
        assert of is not None
        names.append([f"new-{case.seed}-{of.name}-{number}" for number in range(delta.add)])
        bodies += [node_of(of, name, rng) for name in names[-1]]
    hands.add_nodes(bodies)
    return names


def _pinned(case: Case, made: Plan, new: list[list[str]]) -> list[Json]:
    """The planned pods, each to its node; those without a spread first, company after those who give it."""
    places = {str(ref): each.target for each in (*made.fits_existing, *made.fits_upcoming) for ref in each.pods}
    for delta, nodes in zip(made.deltas, new, strict=True):
        for name, node in zip(nodes, delta.nodes, strict=True):
            places.update((str(ref), name) for ref in node.pods)
    pods = [pinned(pod, places[key(pod)]) for pod in case.waiting if key(pod) in places]
    return sorted(pods, key=_later)


def _later(pod: Json) -> tuple[bool, bool]:
    return bool(pod["spec"].get("topologySpreadConstraints")), "podAffinity" in pod["spec"]["affinity"]


def _probed(hands: Hands, case: Case, made: Plan, rng: Random) -> list[str]:
    """Pods that no pool serves must be refused by one more node of each pool."""
    by_key = {key(pod): pod for pod in case.waiting}
    found: list[str] = []
    number = 0
    for group in made.unserved:
        for of in case.config.pools:
            reason = group.reasons[of.name]
            if reason.startswith(NOT_OF_THE_NODE) or (len(of.zones) > 1 and ZONE in reason):
                continue  # the latter: which zone the node would come up in is counted at its worst
            name, number = f"probe-{case.seed}-{number}", number + 1
            hands.add_nodes([node_of(of, name, rng)])
            if _takes(hands, pinned(by_key[str(group.pods[0])], name), name):
                found.append(f"seed {case.seed}: bound to a new node of {of.name}, though {reason!r}: {group.pods[0]}")
            hands.api.delete(f"{NODES}/{name}")
    return found


def _takes(hands: Hands, pod: Json, name: str) -> bool:
    pod["metadata"]["name"] = name
    path = f"{pods_path(pod)}/{name}"
    hands.create_pod(pod)
    eventually(f"{name} judged", lambda: _said(hands.api.get(path)))
    bound = bool(hands.api.get(path)["spec"].get("nodeName"))
    hands.api.delete(path, grace_seconds=0)
    return bound


def _said(pod: Json) -> bool:
    """Whether the scheduler has bound the pod or said that it can't."""
    conditions = pod["status"].get("conditions") or ()
    return bool(pod["spec"].get("nodeName")) or any(each["type"] == "PodScheduled" for each in conditions)
