"""Opening new nodes: their pods are nominated to them, then the startup taint is lifted.

What a plan has packed tight comes true that way: kube-scheduler tries a pod's nominated node first, and keeps the room
there from others. Where nominations are not honoured, or not allowed, the taint is lifted all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from functions.durable import Json, Registry
from functions.nodes import is_cordoned, path_of
from functions.outcomes import LOG, tell
from functions.world import World, may_grow
from shared.adapters.errors import NotFound, Refused, Rejected, RetryLater
from shared.adapters.protocols import ClusterApi, JsonPatch
from shared.names import STARTING_TAINT

_TASTERS = 8  # nominations that are sent first: when they are refused, all would be


def open_nodes(world: World, order: Json) -> Json:
    """{cluster, plan}: nominate and lift as the stored plan says, on nodes of pools that may act: {nominated, opened}.

    Twice is once: a pod that has a node, or a nomination, is left alone, and so is a node without the taint.
    """
    config = world.config(order["cluster"])
    acting = {pool.name for pool in config.pools if may_grow(pool)}
    openings = [each for each in world.document(order["cluster"], order["plan"])["openings"] if each["pool"] in acting]
    api = world.api(order["cluster"])
    guests = [(each["node"], guest) for each in openings for guest in each["guests"]]
    nominated = _nominate(api, guests)
    opened = lift(api, [(each["node"], each["uid"], each["taint"]) for each in openings])
    again = _nominate(api, _forgotten(api, guests)) if nominated else 0
    tell("opened", cluster=order["cluster"], nodes=opened, nominated=nominated, again=again)
    return {"nominated": nominated, "again": again, "opened": opened}


def open_anyway(world: World, order: Json) -> Json:
    """{cluster, nodes}: lift the taint of nodes that nobody opened in time: {opened}."""
    nodes = [(each["node"], each["uid"], each["taint"]) for each in order["nodes"]]
    opened = lift(world.api(order["cluster"]), nodes)
    tell("opened late", cluster=order["cluster"], nodes=opened, names=[name for name, _, _ in nodes[:8]])
    return {"opened": opened}


def lift(api: ClusterApi, nodes: list[tuple[str, str, int]]) -> int:
    """Take the startup taint off nodes (name, uid, place of the taint in the list); how many were opened by that."""
    answers = api.patch_each([_lifting(*node) for node in nodes])
    missed = [node for node, answer in zip(nodes, answers, strict=True) if isinstance(answer, (Rejected, RetryLater))]
    found = [again for node in missed if (again := _found_again(api, *node[:2])) is not None]
    second = api.patch_each([_lifting(*node) for node in found])
    if troubles := [answer for answer in second if answer is not None]:
        LOG.warning("%d nodes keep their startup taint until the next look: %s", len(troubles), troubles[0])
    return sum(answer is None for answer in (*answers, *second))


def place_of_taint(node: Json) -> int | None:
    """Where in a Node's list of taints ours stands."""
    taints = node.get("spec", {}).get("taints") or ()
    return next((number for number, taint in enumerate(taints) if taint.get("key") == STARTING_TAINT), None)


def _lifting(node: str, uid: str, place: int) -> JsonPatch:
    taint = f"/spec/taints/{place}"
    guards = [_test("/metadata/uid", uid), _test(f"{taint}/key", STARTING_TAINT), _test("/spec/unschedulable", None)]
    return JsonPatch(path_of(node), [*guards, {"op": "remove", "path": taint}])


def _found_again(api: ClusterApi, name: str, uid: str) -> tuple[str, str, int] | None:
    """The node with the place of its taint now, for a second try: others have written to its list, or the server was
    busy. None when there is nothing to lift, or the node is cordoned: whoever did that is not done with it."""
    try:
        node = api.get(path_of(name))
    except NotFound:
        return None
    place = place_of_taint(node)
    meant = node["metadata"].get("uid") == uid and not is_cordoned(node)
    return None if place is None or not meant else (name, uid, place)


def _nominate(api: ClusterApi, guests: list[tuple[str, Json]]) -> int:
    """Nominate pods that have neither a node nor another nomination; how many were. A refusal of all is only told."""
    patches = [_nomination(node, guest) for node, guest in guests]
    tasted = api.patch_each(patches[:_TASTERS])
    refused = next((answer for answer in tasted if isinstance(answer, Refused)), None)
    if refused is not None:
        LOG.warning("pods cannot be nominated to their nodes, the scheduler places them as it likes: %s", refused)
        return 0
    return sum(answer is None for answer in (*tasted, *api.patch_each(patches[_TASTERS:])))


def _nomination(node: str, guest: Json) -> JsonPatch:
    pod, before = guest["pod"], guest["instead_of"]
    guards = [
        _test("/metadata/uid", pod["uid"]),
        _test("/spec/nodeName", None),
        _test("/status/nominatedNodeName", before or None),
    ]
    path = f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/status"
    return JsonPatch(path, [*guards, {"op": "add", "path": "/status/nominatedNodeName", "value": node}])


def _forgotten(api: ClusterApi, guests: Iterable[tuple[str, Json]]) -> list[tuple[str, Json]]:
    """Those who were tried while the last nodes were still closed: the scheduler then drops the nomination."""
    found, _ = api.list("/api/v1/pods", field_selector="spec.nodeName=,status.nominatedNodeName=")
    free = {pod["metadata"]["uid"] for pod in found}
    return [(node, {**guest, "instead_of": ""}) for node, guest in guests if guest["pod"]["uid"] in free]


def _test(path: str, value: str | None) -> dict[str, Any]:
    """A missing field equals null."""
    return {"op": "test", "path": path, "value": value}


def registry(world: World) -> Registry:
    """The activities of opening."""
    made = Registry()
    made.activity(world, open_nodes, open_anyway)
    return made
