"""What pods would rather have: preferred node affinity; preferred terms and ScheduleAnyway about their own kind.

A term or constraint about other pods counts only if its selector selects the pod that bears it: spreading the replicas
of one workload is what they are used for. One about others would have every pod carry the labels that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from shared.model import NodeSelectorTerm, Preferences, Requirement
from shared.rules.pod_rules import speaks_of, spread_of, term_of

Json = dict[str, Any]

_EMPTY: Json = {}
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def preferences_of(pod: Json) -> Preferences | None:
    """The pod's preferences, the same object for equal ones; None for a pod that has none."""
    spec = pod.get("spec") or _EMPTY
    affinity, constraints = spec.get("affinity") or _EMPTY, spec.get("topologySpreadConstraints") or ()
    if not affinity and not constraints:
        return None
    meta = pod.get("metadata") or _EMPTY
    home, labels = meta.get("namespace") or "default", meta.get("labels") or _EMPTY
    spreads = (item for item in constraints if item.get("whenUnsatisfiable") == "ScheduleAnyway")
    own = (rule for item in spreads if speaks_of((rule := spread_of(item, home, labels)).selector, home, labels))
    return _shared(
        Preferences(
            nodes=tuple(sorted(_node_terms(affinity.get("nodeAffinity") or _EMPTY), key=repr)),
            near=tuple(sorted(_own_terms(affinity.get("podAffinity") or _EMPTY, home, labels))),
            apart=tuple(sorted(_own_terms(affinity.get("podAntiAffinity") or _EMPTY, home, labels))),
            spread=tuple(sorted({rule.topology_key for rule in own})),
        )
    )


@lru_cache(maxsize=4096)
def _shared(preferences: Preferences) -> Preferences | None:
    return None if preferences == Preferences() else preferences


def _node_terms(affinity: Json) -> Iterator[tuple[int, NodeSelectorTerm]]:
    for item in affinity.get(_PREFERRED) or ():
        term = item.get("preference") or _EMPTY
        if term.get("matchExpressions") or term.get("matchFields"):  # an empty term prefers nothing
            found = NodeSelectorTerm(
                _requirements(term.get("matchExpressions")), _requirements(term.get("matchFields"))
            )
            yield int(item.get("weight") or 1), found


def _own_terms(affinity: Json, home: str, labels: Json) -> Iterator[tuple[int, str]]:
    for item in affinity.get(_PREFERRED) or ():
        term = term_of(item.get("podAffinityTerm") or _EMPTY, home, labels)
        if speaks_of(term.selector, home, labels):
            yield int(item.get("weight") or 1), term.topology_key


def _requirements(written: Iterable[Json] | None) -> tuple[Requirement, ...]:
    found = {
        Requirement(item["key"], item["operator"], tuple(sorted(item.get("values") or ()))) for item in written or ()
    }
    return tuple(sorted(found, key=repr))
