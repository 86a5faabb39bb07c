"""A cluster's pods, nodes and DaemonSets: from a `kubectl get ... -A -o json` dump, or from its API server."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from local.errors import BAD_INPUT, REFUSED, UNREACHABLE, UserError
from shared.reading.storage import Kind
from shared.reading.volumes import uses_claims

if TYPE_CHECKING:
    from shared.adapters.protocols import ClusterApi

Json = dict[str, Any]

_PATHS = {"Pod": "/api/v1/pods", "Node": "/api/v1/nodes", "DaemonSet": "/apis/apps/v1/daemonsets"}
_KINDS = {  # what tells of volumes, by an item's own kind
    "PersistentVolumeClaim": Kind.CLAIMS,
    "PersistentVolume": Kind.VOLUMES,
    "StorageClass": Kind.CLASSES,
    "CSINode": Kind.CSI_NODES,
    "CSIDriver": Kind.CSI_DRIVERS,
    "VolumeAttachment": Kind.ATTACHMENTS,
}
_TELLING = (Kind.CLAIMS, Kind.VOLUMES, Kind.CLASSES, Kind.CSI_NODES)  # a cluster with claims has some of each
_HOW = "make one with: kubectl get pods,nodes,daemonsets,pvc,pv,sc,csinodes,csidrivers,volumeattachments -A -o json"


@dataclass(slots=True)
class ClusterObjects:
    """Objects as the API server wrote them, by kind; other kinds are left out.

    `unread` says why nothing is known of a kind that tells of volumes.
    """

    pods: list[Json] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=list)
    daemon_sets: list[Json] = field(default_factory=list)
    pod_groups: dict[str, list[Json]] = field(default_factory=dict)  # by API group
    volumes: dict[Kind, list[Json]] = field(default_factory=lambda: {kind: [] for kind in Kind})
    unread: dict[Kind, str] = field(default_factory=dict)


def read_input(name: str, what: str, flag: str) -> bytes:
    """The bytes of that file, or of standard input for "-". Raises UserError naming the file and who asks for it."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except FileNotFoundError as error:
        raise UserError(f"{flag} {name}: there is no such file; give the path of the {what}") from error
    except OSError as error:
        raise UserError(f"{flag} {name}: cannot read the {what}: {error.strerror}; give another path") from error


def from_dump(name: str) -> ClusterObjects:
    """From a dump file ("-": standard input). Raises UserError when it is no JSON List of objects."""
    data = read_input(name, "cluster dump", "--cluster")
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise UserError(f"{name}: not JSON (line {error.lineno}, column {error.colno}); {_HOW}") from error
    if not isinstance(document, dict) or not isinstance(document.get("items"), list):
        kind = document.get("kind", "an object") if isinstance(document, dict) else type(document).__name__
        raise UserError(f"{name}: not a List of objects but {str(kind)[:60]}; {_HOW}")
    return _sorted(name, document["items"], str(document.get("kind", "")).removesuffix("List"))


def from_api_server(kubeconfig: str) -> ClusterObjects:
    """Listed now. Raises UserError: bad kubeconfig, unreachable, or refused by rights."""
    # Only here, since these take longer to load than a dump takes to plan.
    from shared.adapters import errors  # noqa: PLC0415
    from shared.adapters.kubernetes import KubernetesClusterApi  # noqa: PLC0415
    from shared.adapters.pod_groups import pod_groups_of  # noqa: PLC0415

    try:
        api = KubernetesClusterApi.from_kubeconfig(kubeconfig)
    except errors.OutsideError as error:
        raise UserError(error.message, BAD_INPUT) from error
    try:
        items = {kind: api.list(path)[0] for kind, path in _PATHS.items()}
        groups = pod_groups_of(api, items["Pod"])
        objects = ClusterObjects(items["Pod"], items["Node"], items["DaemonSet"], groups)
        if any(map(uses_claims, objects.pods)):
            _list_volumes(api, objects)
    except errors.Refused as error:
        raise UserError(f"{error.message}; planning needs to list pods, nodes and daemonsets", REFUSED) from error
    except errors.OutsideError as error:
        raise UserError(f"kubeconfig {kubeconfig}: {error.message}; is the API server up?", UNREACHABLE) from error
    finally:
        api.close()
    return objects


def _list_volumes(api: ClusterApi, objects: ClusterObjects) -> None:
    from shared.adapters import errors  # noqa: PLC0415 - loads long, as above

    for kind in Kind:
        try:
            objects.volumes[kind] = api.list(kind.path)[0]
        except (errors.Refused, errors.NotFound):
            objects.unread[kind] = f"no right to list {kind.value}"


def _sorted(name: str, items: list[Any], default_kind: str) -> ClusterObjects:
    """By kind; the items of a PodList carry no kind of their own."""
    objects = ClusterObjects()
    places = {"Pod": objects.pods, "Node": objects.nodes, "DaemonSet": objects.daemon_sets}
    places |= {name: objects.volumes[kind] for name, kind in _KINDS.items()}
    wrong = []
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            wrong.append(f"{name}: items[{number}]: must be an object, found {type(item).__name__}; {_HOW}")
            continue
        kind = item.get("kind", default_kind)
        if kind == "PodGroup":
            group = str(item.get("apiVersion", "")).partition("/")[0]
            objects.pod_groups.setdefault(group, []).append(item)
        elif (place := places.get(kind)) is not None:
            place.append(item)
    if wrong:
        raise UserError("\n".join(wrong))
    telling = [kind for kind in _TELLING if objects.nodes or kind is not Kind.CSI_NODES]  # one comes with each node
    objects.unread = {kind: f"no {kind.value} in {name}" for kind in telling if not objects.volumes[kind]}
    return objects
