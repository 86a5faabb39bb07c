"""create, update, patch, delete, and the subresources that act: binding and eviction."""

from __future__ import annotations

from typing import Any

import orjson

from local.kube import eviction, patching, schema
from local.kube.kinds import POD, Json
from local.kube.objects import with_condition
from local.kube.problems import ApiProblem, bad_request, conflict, not_allowed, unsupported_media_type
from local.kube.reading import Reader
from local.kube.registry import DeleteOptions, Registry
from local.kube.routes import Route
from local.kube.scaling import scale_of, set_scale
from local.kube.selectors import Selection
from local.kube.store import Stored
from local.kube.truth import Truth
from local.web import Request, Response

_JSON = {"content-type": "application/json"}
_PATCHES = {
    "application/merge-patch+json": patching.merge_patch,
    "application/strategic-merge-patch+json": patching.strategic_merge,
    "application/json-patch+json": patching.json_patch,
}


class Writer:
    """Answers that change something."""

    def __init__(self, registry: Registry, reader: Reader, truth: Truth) -> None:
        self._registry, self._reader, self._truth = registry, reader, truth

    def create(self, request: Request, where: Route) -> Response:
        """POST to a collection, a pod's binding or a pod's eviction."""
        body = _object(request)
        if where.sub == "binding":
            return self._bind(self._registry.find(POD, where.namespace, where.name), body)
        if where.sub == "eviction":
            return self._evict(self._registry.find(POD, where.namespace, where.name), body)
        if where.name:
            raise not_allowed()
        _check_type(where, body)
        _check_fields(request, where, body)
        namespace = where.namespace
        if where.kind.namespaced and not namespace:
            raise not_allowed()
        if _dry_run(request):
            key = self._registry.prepare(where.kind, namespace, body)
            return Response(201, _JSON, Stored(where.kind, key, body, 0).document)
        return Response(201, _JSON, self._registry.create(where.kind, namespace, body).document)

    def update(self, request: Request, where: Route) -> Response:
        """PUT."""
        body = _object(request)
        if where.sub != "scale":
            _check_type(where, body)
        old = self._registry.find(where.kind, where.namespace, where.name)
        return self._store(request, where, old, body)

    def patch(self, request: Request, where: Route) -> Response:
        """PATCH, in any of the three formats; server-side apply is not served."""
        given = request.headers.get("content-type", "").partition(";")[0].strip()
        apply = _PATCHES.get(given)
        if apply is None:
            raise unsupported_media_type(given, tuple(_PATCHES))
        old = self._registry.find(where.kind, where.namespace, where.name)
        body = apply(scale_of(old) if where.sub == "scale" else old.body, _json(request))
        if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
            raise bad_request("the patch leaves no object behind")
        return self._store(request, where, old, body)

    def delete(self, request: Request, where: Route) -> Response:
        """DELETE of one object, or of everything in a collection that is selected."""
        options = _delete_options(request)
        if not where.name:
            return self._delete_all(request, where, options)
        old = self._registry.find(where.kind, where.namespace, where.name)
        if _dry_run(request):
            self._registry.check(old, options)
            return Response(200, _JSON, old.document)
        last, gone = self._registry.delete(old, options)
        if not gone or where.kind is POD:
            return Response(200, _JSON, last.document)
        about = {"name": where.name, "kind": where.kind.plural, "uid": last.uid}
        details = about | ({"group": where.kind.group} if where.kind.group else {})
        return _success(200, {"details": details})

    def _delete_all(self, request: Request, where: Route, options: DeleteOptions) -> Response:
        query = request.query
        selection = Selection(
            where.kind, where.namespace, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )
        for stored in list(self._reader.select(where.kind, selection)):
            self._registry.delete(stored, options)
        return _success(200, {"details": {"kind": where.kind.plural}})

    def _store(self, request: Request, where: Route, old: Stored, body: Json) -> Response:
        if where.sub == "scale":
            scaled = set_scale(self._registry, old, body, dry_run=_dry_run(request))
            return Response(200, _JSON, orjson.dumps(scale_of(scaled)))
        _check_fields(request, where, body)
        if where.sub == "finalize":
            finalizers = (body.get("spec") or {}).get("finalizers") or []
            new = {**old.body, "spec": {**old.spec, "finalizers": finalizers}}
            stored = self._registry.edit_metadata(self._registry.store.replace(old, new), lambda _: None)
        else:
            status = where.sub == "status"
            stored = self._registry.update(old, body, status=status, dry_run=_dry_run(request))
        return Response(200, _JSON, stored.document)

    def _bind(self, pod: Stored, body: Json) -> Response:
        node = (body.get("target") or {}).get("name")
        if not node:
            raise bad_request("Binding.target.name: Required value")
        bind(self._registry, pod, node)
        return _success(201)

    def _evict(self, pod: Stored, body: Json) -> Response:
        if (body.get("metadata") or {}).get("name") != pod.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = _options_of(body.get("deleteOptions") or {})
        before = self._truth.budgets_now(pod)
        try:
            eviction.evict(self._registry, pod, options)
        except ApiProblem as problem:
            self._truth.note_eviction(pod, before, problem.message)
            raise
        self._truth.note_eviction(pod, before, "")
        return _success(201)


def bind(registry: Registry, pod: Stored, node: str) -> Stored:
    """Assign the pod to the node, as the binding subresource does. Raises 409 when it has one or is going."""
    if pod.spec.get("nodeName"):
        raise conflict(POD, pod.name, f'pod {pod.name} is already assigned to node "{pod.spec["nodeName"]}"')
    if pod.terminating:
        raise conflict(POD, pod.name, f"pod {pod.name} is being deleted, cannot be assigned to a host")
    if pod.spec.get("schedulingGates"):
        raise conflict(POD, pod.name, f"pod {pod.name} has non-empty .spec.schedulingGates")
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    status = with_condition(pod.status, scheduled, registry.store.now_text())
    status.pop("nominatedNodeName", None)  # it has come true, or has not; ClearingNominatedNodeNameAfterBinding
    return registry.store.replace(pod, {**pod.body, "spec": {**pod.spec, "nodeName": node}, "status": status})


def _success(code: int, more: dict[str, Any] | None = None) -> Response:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return Response.of_json(code, status | (more or {"code": code}))


def _json(request: Request) -> Any:  # noqa: ANN401 - a patch may be an object or a list
    try:
        return request.json()
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type JSON): {error}") from error


def _object(request: Request) -> Json:
    given = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if given != "application/json":
        raise unsupported_media_type(given, ("application/json",))
    body = _json(request)
    if not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized (must be of type JSON object)")
    return body


def _check_type(where: Route, body: Json) -> None:
    given = body.get("apiVersion", where.kind.api_version), body.get("kind", where.kind.kind)
    if given != (where.kind.api_version, where.kind.kind):
        message = "{1} in version {0!r} cannot be handled as a {2}"
        raise bad_request(message.format(*given, where.kind.kind))


def _check_fields(request: Request, where: Route, body: Json) -> None:
    if request.query.get("fieldValidation") == "Strict":
        schema.check(where.kind, body)


def _dry_run(request: Request) -> bool:
    return request.query.get("dryRun") == "All"


def _delete_options(request: Request) -> DeleteOptions:
    options = dict(_json(request) or {})
    for name in ("gracePeriodSeconds", "propagationPolicy"):
        if name in request.query:
            options.setdefault(name, request.query[name])
    return _options_of(options)


def _options_of(options: Json) -> DeleteOptions:
    guards = options.get("preconditions") or {}
    grace = options.get("gracePeriodSeconds")
    return DeleteOptions(
        grace=None if grace is None else int(grace),
        uid=guards.get("uid", ""),
        version=guards.get("resourceVersion", ""),
        propagation=options.get("propagationPolicy") or "",
    )
