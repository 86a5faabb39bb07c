"""Node selector terms as the API writes them, read into the core's canonical form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shared.model import NodeSelectorTerm, Requirement

Json = dict[str, Any]


def selector_terms(selector: Json) -> tuple[NodeSelectorTerm, ...]:
    """The alternatives of a NodeSelector; a term without requirements matches no node, so it is left out."""
    terms = {
        NodeSelectorTerm(_requirements(term.get("matchExpressions")), _requirements(term.get("matchFields")))
        for term in selector.get("nodeSelectorTerms") or ()
        if term.get("matchExpressions") or term.get("matchFields")
    }
    return tuple(sorted(terms, key=repr))


def topology_terms(written: Iterable[Json]) -> tuple[NodeSelectorTerm, ...]:
    """The alternatives of a StorageClass's `allowedTopologies`; an empty one selects no node."""
    terms = {
        NodeSelectorTerm(
            tuple(
                sorted(
                    {
                        Requirement(each["key"], "In", tuple(sorted(each.get("values") or ())))
                        for each in term["matchLabelExpressions"]
                    },
                    key=repr,
                )
            ),
            (),
        )
        for term in written
        if term.get("matchLabelExpressions")
    }
    return tuple(sorted(terms, key=repr))


def _requirements(written: Iterable[Json] | None) -> tuple[Requirement, ...]:
    found = {
        Requirement(item["key"], item["operator"], tuple(sorted(item.get("values") or ()))) for item in written or ()
    }
    return tuple(sorted(found, key=repr))
