"""The three patch formats. All of them leave what they are given untouched, and share what did not change.

Merge patch is RFC 7386, JSON patch RFC 6902, strategic merge patch as in k8s.io/apimachinery/pkg/util/strategicpatch;
its merge keys are those of the `patchMergeKey` tags in k8s.io/api for the kinds served here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from local.kube.problems import ApiProblem, bad_request

Node = Any  # any JSON value

_MERGE_KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "resourceClaims": "name",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "schedulingGates": "name",
    "conditions": "type",
    "addresses": "type",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "secrets": "name",
}
_PRIMITIVE_MERGES = frozenset({"finalizers"})


def merge_patch(target: Node, patch: Node) -> Node:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def strategic_merge(target: Node, patch: Node) -> Node:
    """Lists with a merge key are merged element by element, others replaced; `$patch`, `$deleteFromPrimitiveList`,
    `$setElementOrder` and `$retainKeys` are honoured."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_field(result, name, value)
    _apply_directives(result, patch)
    return result


def _merge_field(result: dict[str, Node], name: str, value: Node) -> None:
    if value is None:
        result.pop(name, None)
    elif isinstance(value, list):
        result[name] = _merge_list(name, result.get(name) or [], value)
    else:
        result[name] = strategic_merge(result.get(name), value)


def _merge_key(name: str, items: list[Node]) -> str:
    if name == "ports":  # a Service's ports go by port, a container's by containerPort
        return "containerPort" if any("containerPort" in item for item in items) else "port"
    return _MERGE_KEYS.get(name, "")


def _merge_list(name: str, target: list[Node], patch: list[Node]) -> list[Node]:
    if name in _PRIMITIVE_MERGES:
        return target + [item for item in patch if item not in target]
    key = _merge_key(name, patch + target)
    if not key or not all(isinstance(item, dict) for item in patch):
        return patch
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if item.get("$patch") != "replace"]
    result = list(target)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        place = next((at for at, one in enumerate(result) if one.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            result = [one for one in result if one.get(key) != item[key]]
        elif place is None:
            result.append(strategic_merge({}, item))
        else:
            result[place] = strategic_merge(result[place], item)
    return result


def _apply_directives(result: dict[str, Node], patch: dict[str, Node]) -> None:
    for directive, value in patch.items():
        kind, _, name = directive.partition("/")
        if kind == "$deleteFromPrimitiveList":
            result[name] = [item for item in result.get(name) or [] if item not in value]
        elif kind == "$setElementOrder" and isinstance(result.get(name), list):
            result[name] = _in_order(name, result[name], value)
        elif kind == "$retainKeys":
            for other in [key for key in result if key not in value]:
                del result[other]


def _in_order(name: str, items: list[Node], order: list[Node]) -> list[Node]:
    key = _merge_key(name, items)

    def identity(item: Node) -> Node:
        return item.get(key) if isinstance(item, dict) else item

    ranks = {identity(item): rank for rank, item in enumerate(order)}
    return sorted(items, key=lambda item: ranks.get(identity(item), len(ranks)))


def json_patch(document: Node, operations: Node) -> Node:
    """RFC 6902. Raises 422 when a path is missing or a test fails."""
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list of operations")
    for operation in operations:
        document = _operate(document, operation)
    return document


def _operate(document: Node, operation: dict[str, Node]) -> Node:
    path = _pointer(operation["path"])
    match operation.get("op"):
        case "add":
            return _put(document, path, operation.get("value"), insert=True)
        case "replace":
            _find(document, path)
            return _put(document, path, operation.get("value"), insert=False)
        case "remove":
            return _drop(document, path)
        case "test":
            if _tested(document, path, operation.get("value")) != operation.get("value"):
                raise _unprocessable(f"testing path {operation['path']} failed")
            return document
        case "move":
            source = _pointer(operation["from"])
            return _put(_drop(document, source), path, _find(document, source), insert=True)
        case "copy":
            return _put(document, path, _find(document, _pointer(operation["from"])), insert=True)
        case other:
            raise bad_request(f"Unexpected kind: {other}")


def _tested(document: Node, path: list[str], expected: Node) -> Node:
    """The API server's library takes a missing field for null, where null is asked for."""
    try:
        return _find(document, path)
    except ApiProblem:
        if expected is None:
            return None
        raise


def _unprocessable(message: str) -> ApiProblem:
    return ApiProblem(422, "Invalid", f"the server rejected our request due to an error in our request: {message}")


def _pointer(text: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _find(document: Node, path: list[str]) -> Node:
    for part in path:
        try:
            document = document[int(part)] if isinstance(document, list) else document[part]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise _unprocessable(f"missing path: /{'/'.join(path)}") from error
    return document


def _put(document: Node, path: list[str], value: Node, *, insert: bool) -> Node:
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(document, list):
        items = list(document)
        at = len(items) if head == "-" else _index(head, len(items))
        if rest or not insert:
            items[at] = _put(_find(document, [head]), rest, value, insert=insert)
        else:
            items.insert(at, value)
        return items
    if not isinstance(document, dict):
        raise _unprocessable(f"missing path: {head}")
    child = _put(_find(document, [head]), rest, value, insert=insert) if rest else value
    return {**document, head: child}


def _index(text: str, size: int) -> int:
    if not text.isdigit() or int(text) > size:
        raise _unprocessable(f"invalid index: {text}")
    return int(text)


def _drop(document: Node, path: list[str]) -> Node:
    child, (head, *rest) = _find(document, path[:1]), path
    if rest:
        return _put(document, [head], _drop(child, rest), insert=False)
    if isinstance(document, list):
        at = int(head)
        return document[:at] + document[at + 1 :]
    return {name: value for name, value in document.items() if name != head}
