"""`sluice history NODE|POD`: what was done to it, when, by which operation, why, by which rule; also when long gone."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from local.cli_app import Json, add_question, answer
from local.status_text import at

_PODS_SHOWN = 8
_TOLD = {
    "asked": "asked for",
    "bought": "bought",
    "refused": "refused by Azure",
    "noticed": "Azure takes it",
    "dead": "taken for dead",
    "cordoned": "cordoned",
    "evicted": "evicted",
    "ending": "found ending",
    "held": "held back",
    "blocked": "kept by a pod",
    "paused": "paused",
    "forced": "deleted by force",
    "recalled": "called back",
    "kept": "kept",
    "deleted": "VM deleted",
    "gone": "gone",
    "buried": "Node object deleted",
    "cleared": "leftover deleted",
    "would-buy": "would be bought",
    "would-go": "would have gone",
}
_WIDTH = 19


add_arguments = add_question


def run(arguments: argparse.Namespace) -> int:
    """Print the history. Raises UserError."""
    return answer(arguments, "history", as_text)


def as_text(document: Json) -> Iterator[str]:
    """One line per deed, with why and by which rule below it; then the orchestrations that carried them out."""
    yield f"{document['kind']} {document['name']} of cluster {document['cluster']}"
    if not document["told"]:
        yield "  nothing was done to it (what was done more than 90 days ago is forgotten)"
    for each in document["told"]:
        yield from (f"  {line}" for line in _deed(each, document["kind"]))
    for saga in document["sagas"]:
        yield from (f"  {line}" for line in _saga(saga))


def _deed(each: Json, kind: str) -> Iterator[str]:
    where = f" from node {each['node']}" if kind == "pod" and each.get("node") else ""
    pool = f" of pool {each['pool']}" if each.get("pool") else ""
    yield f"{at(each['at'])}  {_TOLD.get(each['event'], each['event']):{_WIDTH}}{each['why']}"
    yield f"{'':{23 + 2 + _WIDTH}}by Sluice, operation {each['op']}{where}{pool}" + (
        f", rule: {each['rule']}" if each.get("rule") else ""
    )
    pods = each.get("pods") or []
    if pods:
        more = f" and {each['number'] - _PODS_SHOWN} more" if each["number"] > _PODS_SHOWN else ""
        yield f"{'':{23 + 2 + _WIDTH}}pods: {', '.join(pods[:_PODS_SHOWN])}{more}"


def _saga(saga: Json) -> Iterator[str]:
    result = saga["result"] or {}
    ended = f": {result['reason']}" if result.get("reason") else ""
    yield f"orchestration {saga['id']} ({saga['name']}), {saga['status'].lower()}{ended}"
    yield f"  {at(saga['started'])} to {at(saga['updated'])}, steps of its newest history:"
    for step in saga["steps"]:
        yield f"  {at(step['at'])}  {step['step']}{' failed' if step.get('failed') else ''}"
