"""From a URL's path to what it names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from local.kube.kinds import BY_PATH, NAMESPACE, Kind
from local.kube.problems import unknown_path


@dataclass(frozen=True, slots=True)
class Route:
    """A collection (`name` empty), an object, or an object's subresource."""

    kind: Kind
    namespace: str
    name: str
    sub: str


@lru_cache(maxsize=8192)
def route(path: str) -> Route:
    """Raises 404 for what is not served."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise unknown_path()
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and (group, version, rest[2]) in BY_PATH:
        namespace, rest = rest[1], rest[2:]
    kind = BY_PATH.get((group, version, rest[0])) if rest else None
    if kind is None or len(rest) > 3 or (namespace and not kind.namespaced):
        raise unknown_path()
    name, sub = (*rest[1:], "", "")[:2]
    known = ("status", *kind.subresources, "finalize" if kind is NAMESPACE else "status")
    if sub and (sub not in known or (sub == "status" and not kind.status)):
        raise unknown_path()
    if kind.namespaced and name and not namespace:
        raise unknown_path()
    return Route(kind, namespace, name, sub)
