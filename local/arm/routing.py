"""Which request means what: a path becomes a pattern of kinds, and a pattern with its method is a route."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from local.arm.errors import ArmError, invalid
from local.arm.state import Json
from local.web import Request, Response


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed path: `pattern` is provider and kinds in lower case with `*` for names."""

    subscription: str
    group: str
    pattern: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One request on its way to a resource module; `base` is the URL that absolute links must start with."""

    request: Request
    target: Target
    base: str

    @property
    def name(self) -> str:
        """The resource's own name; "" for a list."""
        return self.target.names[0] if self.target.names else ""

    def body(self) -> Json:
        """The request's JSON object. Raises ArmError 400."""
        try:
            value: Any = self.request.json()
        except orjson.JSONDecodeError as error:
            raise invalid(f"The request content was invalid: {error}", "InvalidRequestContent") from error
        if not isinstance(value, dict):
            raise invalid("The request content must be a JSON object.", "InvalidRequestContent")
        return value


@dataclass(frozen=True, slots=True)
class Route:
    """`name` is what faults and counts go by."""

    name: str
    handle: Callable[[Call], Response]


@lru_cache(maxsize=16384)
def parse_path(path: str) -> Target:
    """Raises ArmError 404 for what is no ARM path."""
    parts = path.strip("/").split("/")
    if len(parts) < 2 or parts[0].lower() != "subscriptions":
        raise ArmError(404, "InvalidResourceType", f"The path '{path}' is not a resource path.")
    subscription, rest, group = parts[1], parts[2:], ""
    if len(rest) >= 2 and rest[0].lower() == "resourcegroups":
        group, rest = rest[1], rest[2:]
    if len(rest) < 3 or rest[0].lower() != "providers":
        raise ArmError(404, "InvalidResourceType", f"The path '{path}' names no resource of a provider.")
    kinds = [rest[1].lower()]
    names: list[str] = []
    for position, part in enumerate(rest[2:]):
        if position % 2 == 0:
            kinds.append(part.lower())
        else:
            kinds.append("*")
            names.append(part)
    return Target(subscription, group, "/".join(kinds), tuple(names))


def is_forced(call: Call) -> bool:
    """Whether a deletion is not to wait for the guest."""
    return call.request.query.get("forceDeletion", "").lower() == "true"


def paged(call: Call, items: list[Any], size: int) -> Response:
    """One page of a list, with a nextLink while there is more."""
    skip = int(call.request.query.get("$skiptoken", "0"))
    page: dict[str, Any] = {"value": items[skip : skip + size]}
    if skip + size < len(items):
        query = "&".join(f"{key}={value}" for key, value in call.request.query.items() if key != "$skiptoken")
        page["nextLink"] = f"{call.base}{call.request.path}?{query}&$skiptoken={skip + size}"
    return Response.of_json(200, page)
