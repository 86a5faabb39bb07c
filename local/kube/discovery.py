"""What there is to talk about: /version, the classic discovery documents, and as much OpenAPI as kubectl asks for.

kubectl apply looks into OpenAPI v3 for one thing before it trusts the server with validation: whether PATCH of the kind
takes `fieldValidation`. Without schemas it computes its patch from its own built-in types.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson

from local.kube.kinds import KINDS, NAMESPACE, Kind
from local.web import Response

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3-sluice.stand-in",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUBRESOURCES = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
}
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})


def health(path: str) -> Response | None:
    """The answer to a probe, which needs no token; None for any other path."""
    return Response(200, {"content-type": "text/plain; charset=utf-8"}, b"ok") if path in _HEALTH else None


def answer(path: str) -> Response | None:
    """The document at that path, or None when it is none of discovery's."""
    document = _document(path.rstrip("/"))
    return Response(200, {"content-type": "application/json"}, document) if document is not None else None


@lru_cache(maxsize=256)
def _document(path: str) -> bytes | None:
    found = _find(path)
    return orjson.dumps(found) if found is not None else None


def _find(path: str) -> dict[str, Any] | None:  # noqa: PLR0911 - one return per document
    match path.split("/")[1:]:
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = [_group(kind) for kind in _first_of_groups()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group]:
            return next((_group(kind) for kind in _first_of_groups() if kind.group == group), None)
        case ["api", "v1"]:
            return _resources("", "v1")
        case ["apis", group, version]:
            return _resources(group, version)
        case ["openapi", "v3"]:
            return {"paths": {_root(kind): {"serverRelativeURL": f"/openapi/v3/{_root(kind)}"} for kind in _firsts()}}
        case ["openapi", "v3", *root]:
            return _schema("/".join(root))
        case _:
            return None


def _firsts() -> list[Kind]:
    return list({(kind.group, kind.version): kind for kind in KINDS}.values())


def _first_of_groups() -> list[Kind]:
    return [kind for kind in _firsts() if kind.group]


def _group(kind: Kind) -> dict[str, Any]:
    version = {"groupVersion": kind.api_version, "version": kind.version}
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": kind.group,
        "versions": [version],
        "preferredVersion": version,
    }


def _resources(group: str, version: str) -> dict[str, Any] | None:
    kinds = [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
    if not kinds:
        return None
    entries = [entry for kind in kinds for entry in _entries(kind)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].api_version,
        "resources": entries,
    }


def _entries(kind: Kind) -> list[dict[str, Any]]:
    main: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _VERBS,
    }
    if kind.short:
        main["shortNames"] = list(kind.short)
    if kind.all_category:
        main["categories"] = ["all"]
    entries = [main]
    if kind.status:
        status = {"name": f"{kind.plural}/status", "singularName": "", "namespaced": kind.namespaced}
        entries.append(status | {"kind": kind.kind, "verbs": ["get", "patch", "update"]})
    for sub in kind.subresources:
        group, version, name = _SUBRESOURCES[sub]
        entry = {"name": f"{kind.plural}/{sub}", "singularName": "", "namespaced": True, "group": group}
        verbs = ["get", "patch", "update"] if sub == "scale" else ["create"]
        entries.append(entry | {"version": version, "kind": name, "verbs": verbs})
    return entries


def _root(kind: Kind) -> str:
    return f"apis/{kind.api_version}" if kind.group else "api/v1"


def _schema(root: str) -> dict[str, Any] | None:
    kinds = [kind for kind in KINDS if _root(kind) == root]
    if not kinds:
        return None
    paths = {_path(kind): {"patch": _patch_operation(kind)} for kind in kinds}
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}


def _path(kind: Kind) -> str:
    space = "/namespaces/{namespace}" if kind.namespaced and kind is not NAMESPACE else ""
    return f"/{_root(kind)}{space}/{kind.plural}/{{name}}"


def _patch_operation(kind: Kind) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    return {
        "operationId": f"patch{kind.kind}",
        "parameters": parameters,
        "requestBody": {"content": {"application/merge-patch+json": {"schema": {"type": "object"}}}},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-group-version-kind": {"group": kind.group, "kind": kind.kind, "version": kind.version},
    }
