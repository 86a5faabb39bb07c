"""The status document for a person: what is in force, what was decided, what is under way, and what stays undone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from functions.housekeeping import REMEDY
from functions.pausing import WHOLE
from shared.names import CONFIG_CONTAINER, DEAD_LETTER_CONTAINER

Json = dict[str, Any]

_SHOWN = 20  # nodes, operations and refusals; `-o json` has them all
_REASONS_SHOWN = 5
_ACTING = ("act", "grow-only")


def as_text(document: Json) -> Iterator[str]:
    """All clusters of a status document, then what concerns the whole app."""
    for name, cluster in document["clusters"].items():
        yield from _cluster(name, cluster)
    if not document["clusters"]:
        yield f"no cluster yet: put its pools file at {CONFIG_CONTAINER}/NAME.yaml in the app's storage"
    letters = document["dead_letters"]
    yield f"dead letters: {letters}" + (
        f", with their reasons in the container {DEAD_LETTER_CONTAINER}" * bool(letters)
    )


def _cluster(name: str, cluster: Json) -> Iterator[str]:
    mode = cluster["mode"] or "none: no valid pools file was ever read"
    stricter = [f"{pool} {own}" for pool, own in cluster["pools"].items() if own != cluster["mode"]]
    yield f"cluster {name}, mode {mode}" + (f" ({', '.join(stricter)})" if stricter else "")
    yield from (f"  {pause_line(pool, each)}" for pool, each in cluster.get("pauses", {}).items())
    if cluster["config_problems"]:
        yield "  the newest pools file is refused" + (", the last good one stays in force" if cluster["mode"] else "")
        yield from (f"    {problem}" for problem in cluster["config_problems"])
    yield from (f"  {line}" for line in _few("missing rights", _lacking(cluster)))
    yield from (f"  {line}" for line in _plan(cluster["plan"]))
    yield from (f"  {line}" for line in _under_way(cluster))
    yield from (f"  {line}" for line in _stuck(cluster))
    yield from (f"  {line}" for line in _kept_vms(cluster))
    yield from (f"  {line}" for line in _staying(cluster))
    yield from (f"  {line}" for line in _few("refusals", _refusals(cluster["failures"])))


def pause_line(pool: str, entry: Json) -> str:
    """Who has paused what, since when, until when, and why."""
    until = f"until {at(entry['until'])}" if entry["until"] else "until it is resumed"
    return f"paused is {_paused(pool)}, {_since(entry)}, {until}{_why(entry)}"


def resumed_line(pool: str, entry: Json) -> str:
    """What goes on, who had paused it, since when, and why."""
    return f"resumed is {_paused(pool)}, paused {_since(entry)}{_why(entry)}"


def _paused(pool: str) -> str:
    return "all of it" if pool == WHOLE else f"pool {pool}"


def _since(entry: Json) -> str:
    return f"since {at(entry['at'])}" + (f" by {entry['by']}" if entry["by"] else "")


def _why(entry: Json) -> str:
    return f": {entry['reason']}" if entry["reason"] else ""


def _plan(plan: Json) -> Iterator[str]:
    if not plan:
        yield "no plan was made yet"
        return
    cost = f", {plan['cost_per_hour']:.3f} per hour to add" if plan["cost_per_hour"] else ""
    yield f"last plan at {at(plan['made_at'])}{cost}"
    yield from (f"  {line}" for line in _decided(plan))
    for each in plan.get("served", ())[:_REASONS_SHOWN]:
        more = f" and {each['pods'] - 1} more" if each["pods"] > 1 else ""
        yield f"  {each['pod']}{more}: {_nodes(each['nodes'])} of {each['target']}. {each['why']}"
    there, coming = plan["fits_existing"], plan["fits_upcoming"]
    if there or coming:
        yield f"  pods that fit without more nodes: {there} on nodes that are there, {coming} on nodes that are coming"
    shown = 0
    for group in plan["unserved"]:
        shown += len(group["pods"]) + group["more"]
        yield f"  not served: {_pods(group)}"
        width = max(map(len, group["reasons"]), default=0)
        yield from (f"    {pool:{width}}  {reason}" for pool, reason in group["reasons"].items())
    if plan["unserved_pods"] > shown:
        yield f"  not served: {plan['unserved_pods'] - shown} more pods"
    yield from (f"  note: {note}" for note in plan["notes"])


def _decided(plan: Json) -> Iterator[str]:
    for pool, number in plan["deltas"].items():
        yield f"{_may(plan, pool, 'adds', 'would add')} {_nodes(number)} to {pool}"
    for pool, number in plan["top_up"].items():
        yield f"{_may(plan, pool, 'adds', 'would add')} {_nodes(number)} to {pool}, to reach its minimum"
    for pool, number in plan.get("replacements", {}).items():
        yield f"{_may(plan, pool, 'adds', 'would add')} {_nodes(number)} to {pool}, so that dearer ones can go"
    for node, pods in plan.get("reuse", {}).items():
        yield f"calls back {node}, which was on its way out, for {pods} pod" + "s" * (pods != 1)
    yield from (f"retires {node}: {reason}" for node, reason in plan["retirements"].items())
    if not any(plan.get(what) for what in ("deltas", "top_up", "replacements", "retirements", "reuse")):
        yield "nothing to add and nothing to retire"


def _may(plan: Json, pool: str, does: str, would: str) -> str:
    return does if plan["modes"].get(pool) in _ACTING else f"{plan['modes'].get(pool)}: {would}"


def _under_way(cluster: Json) -> Iterator[str]:
    growths = (
        f"growing: {growth['pool']} by {growth['add']}, {growth['stage']}"
        + (f", {len(growth['claimed'])} still to join" if growth["claimed"] else "")
        + f", since {at(growth['asked'])}"
        for growth in cluster["growths"].values()
    )
    yield from _few("growths", growths)
    leaving = (
        f"retiring: {node} of {going['pool']}, {going['stage']}, since {at(going['since'])}{_held_by(going)}"
        for node, going in cluster["retirements"].items()
    )
    yield from _few("retirements", leaving)
    if not (cluster["growths"] or cluster["retirements"]):
        yield "nothing is under way"


def _lacking(cluster: Json) -> Iterator[str]:
    for one in cluster.get("lacking", ()):
        yield f"a right is missing: {one['what']} (at {at(one['at'])})"


def _held_by(going: Json) -> str:
    """What pauses or keeps a saga."""
    return f"; {going['kind']}: {going['why']}" if going.get("why") else ""


def _stuck(cluster: Json) -> Iterator[str]:
    for one in cluster.get("stuck", ()):
        yield f"runs for too long: orchestration {one['id']} ({one['name']}), since {at(one['since'])}; {REMEDY}"


def _kept_vms(cluster: Json) -> Iterator[str]:
    for one in cluster.get("kept_vms", ()):
        yield f"should be gone: VM {one['instance']} of {one['pool']}, {one['kept']}, at {at(one['at'])}"


def _staying(cluster: Json) -> Iterator[str]:
    """Idle nodes that the last plan keeps, and nodes whose retirement was begun and given up."""
    kept: Json = cluster["plan"].get("kept", {})
    yield from _few("nodes that stay", (f"stays: {node}, {reason}" for node, reason in kept.items()))
    tried = (
        f"stayed when it was to go: {node} of {one['pool']}, {one['kept']}, at {at(one['at'])}"
        for node, one in cluster["stayed"].items()
    )
    yield from _few("nodes that stayed", tried)


def _refusals(failures: Iterable[Json]) -> Iterator[str]:
    for memory in failures:
        where = [memory.get("pool") and f"pool {memory['pool']}", memory["sku"], memory["priority"]]
        where.append(memory["zone"] and f"zone {memory['zone']}")
        place = ", ".join(filter(None, where)) or "everything"
        yield f"Azure said no: {memory['code']} for {place}; tried again after {at(memory['until'])}"


def _few(what: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    yield from found[:_SHOWN]
    if len(found) > _SHOWN:
        yield f"and {len(found) - _SHOWN} more {what} (-o json shows all)"


def _nodes(number: int) -> str:
    return f"{number} node" + "s" * (number != 1)


def _pods(group: Json) -> str:
    return ", ".join(group["pods"]) + (f" and {group['more']} more" if group["more"] else "")


def at(stamp: str) -> str:
    """To the second, in UTC as everything here."""
    return f"{stamp[:10]} {stamp[11:19]} UTC"
