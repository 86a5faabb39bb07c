"""kube-scheduler's rules between pods, read literally and slowly, sharing no code with the planner.

Nodes are plain objects with a list of pods; every question walks over all of them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from shared.model import PodShape
from tests.planning.checker import forgives, term_holds

HARD = ("NoSchedule", "NoExecute")


@dataclass
class Host:
    """A node and the pods on it."""

    name: str
    labels: dict[str, str]
    taints: tuple = ()
    pods: list[PodShape] = field(default_factory=list)


def allowed(pod: PodShape, host: Host, hosts: list[Host]) -> bool:
    """Whether InterPodAffinity and PodTopologySpread let the pod onto the host."""
    return _near(pod, host, hosts) and _apart(pod, host, hosts) and _spread(pod, host, hosts)


def unbindable(pinned: list[tuple[PodShape, Host]], hosts: list[Host]) -> list[tuple[PodShape, Host]]:
    """Bind each pod to its host, round after round; returns who waits for ever. Bound pods are on their hosts then."""
    waiting = list(pinned)
    while True:
        still = []
        for pod, host in waiting:
            if allowed(pod, host, hosts):
                host.pods.append(pod)
            else:
                still.append((pod, host))
        if len(still) == len(waiting):
            return still
        waiting = still


def bind_all(pinned: list[tuple[PodShape, Host]], hosts: list[Host]) -> list[tuple[PodShape, Host]]:
    """Bind all in some order of their shapes, those without a spread first, since nothing keeps them from being first.

    Returns who waits for ever in the last order, if there is no order in which nobody does.
    """
    shapes = list(dict.fromkeys(pod for pod, _ in pinned))
    before = [list(host.pods) for host in hosts]
    stuck = []
    for order in itertools.permutations(range(len(shapes))):
        rank = dict(zip(shapes, order, strict=True))
        stuck = unbindable(sorted(pinned, key=lambda each: (bool(each[0].spread), rank[each[0]])), hosts)
        if not stuck:
            break
        for host, pods in zip(hosts, before, strict=True):
            host.pods = list(pods)
    return stuck


def disturbed(pinned: list[tuple[PodShape, Host]], hosts: list[Host]) -> list[tuple[PodShape, Host]]:
    """Bound pods of the plan whose spread does not hold (any more) once all are bound."""
    found = []
    for pod, host in pinned:
        host.pods.remove(pod)
        if not _spread(pod, host, hosts):
            found.append((pod, host))
        host.pods.append(pod)
    return found


def selected(selector, pod: PodShape) -> bool:
    """Whether the selector speaks of the pod."""
    if not pod.namespace or (selector.namespaces is not None and pod.namespace not in selector.namespaces):
        return False
    labels = dict(pod.labels)
    for each in selector.requirements:
        has = labels.get(each.key)
        good = {
            "In": has in each.values,
            "NotIn": has not in each.values,
            "Exists": has is not None,
            "DoesNotExist": has is None,
        }
        if not good[each.operator]:
            return False
    return True


def _near(pod: PodShape, host: Host, hosts: list[Host]) -> bool:
    if any(term.topology_key not in host.labels for term in pod.near):
        return False
    company = [
        (each, other)
        for each in hosts
        for other in each.pods
        if all(selected(term.selector, other) for term in pod.near)
    ]
    topologies = [
        (term.topology_key, each.labels[term.topology_key])
        for each, _ in company
        for term in pod.near
        if term.topology_key in each.labels
    ]
    if not topologies and all(selected(term.selector, pod) for term in pod.near):
        return True
    return all((term.topology_key, host.labels[term.topology_key]) in topologies for term in pod.near)


def _apart(pod: PodShape, host: Host, hosts: list[Host]) -> bool:
    for each in hosts:
        for other in each.pods:
            for term, about in [*((t, other) for t in pod.apart), *((t, pod) for t in other.apart)]:
                key = term.topology_key
                same = key in host.labels and key in each.labels and host.labels[key] == each.labels[key]
                if same and selected(term.selector, about):
                    return False
    return True


def _spread(pod: PodShape, host: Host, hosts: list[Host]) -> bool:
    for rule in pod.spread:
        if rule.topology_key not in host.labels:
            return False
        counts: dict[str, int] = {}
        for each in hosts:
            if _counts(each, pod, rule):
                value = each.labels[rule.topology_key]
                found = sum(selected(rule.selector, other) and not other.leaving for other in each.pods)
                counts[value] = counts.get(value, 0) + found
        poorest = min(counts.values()) if counts and len(counts) >= rule.min_domains else 0
        here = counts.get(host.labels[rule.topology_key], 0)
        if here + selected(rule.selector, pod) - poorest > rule.max_skew:
            return False
    return True


def _counts(host: Host, pod: PodShape, rule) -> bool:
    if any(other.topology_key not in host.labels for other in pod.spread):
        return False
    if rule.honors_affinity:
        if any(host.labels.get(key) != value for key, value in pod.node_selector):
            return False
        if pod.affinity is not None and not any(term_holds(term, host.labels) for term in pod.affinity):
            return False
    return not rule.honors_taints or all(
        taint.effect not in HARD or any(forgives(t, taint) for t in pod.tolerations) for taint in host.taints
    )
