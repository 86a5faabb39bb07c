"""GET /api/doctor: what this app can reach and may do, tried from where it runs and as who it is. It judges nothing and
changes nothing: `sluice doctor` asks it, and knows the remedies."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict

import azure.functions as func

from functions.asking import OPERATE, READ, Mistake, admitted, answered
from functions.cluster_rights import NEEDED, ClusterRight
from functions.durable import Json, Registry
from functions.outcomes import problem
from functions.world import CONFIG_SUFFIX, World
from shared.adapters.errors import NotFound, OutsideError, Unreachable
from shared.adapters.protocols import ClusterApi
from shared.model import AzureScope, Config, Pool, PoolKind
from shared.names import CONFIG_CONTAINER
from shared.version import VERSION

UNREACHABLE = "unreachable"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def examined(world: World, wanted: str | None) -> Json:
    """The whole document. An outside that does not answer is part of it; only the app's own storage must be there."""
    clusters = [name for name in world.clusters() if wanted in (None, name)]
    return {
        "version": VERSION,
        "python": platform.python_version(),
        "clusters": {name: _cluster(world, name) for name in clusters},
        "now": world.services.clock().isoformat(),
    }


def _cluster(world: World, cluster: str) -> Json:
    found: Json = {"pools_file": _text(world, cluster), "problems": [], "azure": [], "api_server": {}, "rights": []}
    try:
        config = world.written(cluster)
    except OutsideError as error:
        return {**found, "problems": list(world.config_problems(cluster)) or [error.message]}
    found["problems"] = list(world.config_problems(cluster))
    found["azure"] = list(_azure(world, config))
    found["api_server"], found["rights"] = _api_server(world, cluster)
    return found


def _text(world: World, cluster: str) -> str:
    try:
        return world.store.get(CONFIG_CONTAINER, f"{cluster}{CONFIG_SUFFIX}").data.decode("utf-8-sig", errors="replace")
    except OutsideError:
        return ""  # told as a problem, by who reads it for its meaning


def _azure(world: World, config: Config) -> Iterator[Json]:
    """The readings that every decision begins with, once per place and kind of pool: rights are given by those."""
    for (scope, kind), pools in _by_place(config.pools).items():
        entry: Json = {"scope": asdict(scope), "kind": str(kind), "pools": [pool.name for pool in pools]}
        tried = [_tried(what, ask) for what, ask in _readings(world, scope, kind, pools)]
        yield {**entry, "tried": tried}


def _by_place(pools: Iterable[Pool]) -> dict[tuple[AzureScope, PoolKind], list[Pool]]:
    places: dict[tuple[AzureScope, PoolKind], list[Pool]] = {}
    for pool in pools:
        if pool.azure is not None:
            places.setdefault((pool.azure, pool.kind), []).append(pool)
    return places


def _readings(
    world: World, scope: AzureScope, kind: PoolKind, pools: Sequence[Pool]
) -> Iterator[tuple[str, Callable[[], object]]]:
    compute = world.services.compute(scope)
    if kind is not PoolKind.VM:
        yield "sizes of the pools", lambda: compute.scale_sets(pools)
    yield f"machines of {pools[0].name}", lambda: compute.instances(pools[0])
    if kind is not PoolKind.AKS:
        yield "disks and network interfaces", lambda: compute.leftovers(pools)
    yield f"quotas in {scope.location}", lambda: compute.usages(scope.location)


def _tried(what: str, ask: Callable[[], object]) -> Json:
    try:
        ask()
    except NotFound as error:
        return {"what": what, "ok": True, "missing": error.message}
    except OutsideError as error:
        return {"what": what, **told(error)}
    return {"what": what, "ok": True}


def told(error: OutsideError) -> Json:
    """A failure as the doctor tells them apart: where nothing answers, no key and no right would help."""
    said = problem(error)
    return {**said, "kind": UNREACHABLE} if isinstance(error, Unreachable) else said


def _api_server(world: World, cluster: str) -> tuple[Json, list[Json]]:
    """The cluster's API server as this app has it; past who notes refusals: to be asked is no reason to write."""
    from shared.adapters.reaching import UNUSABLE  # noqa: PLC0415 - no cold start needs its client

    try:
        api = world.services.cluster(cluster)
    except OutsideError as error:
        return {"obstacle": UNUSABLE, "reason": error.message}, []
    return reviewed(api)


def reviewed(api: ClusterApi) -> tuple[Json, list[Json]]:
    """Whether it answers at all, {"obstacle", "reason"}, and what who asks may do there, by its own word."""
    from shared.adapters.reaching import TROUBLE, reach  # noqa: PLC0415 - as above

    reached = reach(api)
    if reached.obstacle:
        return {"obstacle": reached.obstacle, "reason": reached.reason}, []
    try:
        return {"obstacle": "", "reason": ""}, [{**asdict(right), **_review(api, right)} for right in NEEDED]
    except OutsideError as error:
        return {"obstacle": TROUBLE, "reason": error.message}, []


def _review(api: ClusterApi, right: ClusterRight) -> Json:
    """Source: Kubernetes API reference, SelfSubjectAccessReview; who is known to the cluster at all may ask it."""
    resource, _, sub = right.resource.partition("/")
    asked = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": sub}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    status: Json = api.create(REVIEWS, body).get("status") or {}
    return {"allowed": status.get("allowed") is True, "why": str(status.get("reason") or "")}


def registry(world: World) -> Registry:
    """The HTTP trigger. It waits for others, so it runs on a thread of its own and not on the worker's loop."""

    def doctor(req: func.HttpRequest) -> func.HttpResponse:
        try:
            admitted(world, req, READ, OPERATE)
            return answered(200, examined(world, req.params.get("cluster")))
        except Mistake as mistake:
            return answered(mistake.status, {"error": str(mistake)})
        except OutsideError as error:
            return answered(502, {"error": f"the app's storage: {error.message}"})

    made = Registry()
    made.http_on_thread(doctor, "doctor", keys=world.services.function_keys)
    return made
