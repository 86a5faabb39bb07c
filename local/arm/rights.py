"""Who may do what, as Azure Resource Manager has it: a door before the stand-in that lets nothing through without the
right for it. docs/stand-ins.md says what of this is documented and what is assumed.

A request needs the action of its path and method on what it is about, and a write of VMs also needs one for each thing
that they use (linked scopes): a subnet to join, an image to read, an identity to assign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from local.arm.errors import ArmError
from local.arm.routing import Target, parse_path
from local.arm.state import Estate, Json
from local.web import Handler, Request, Response

_COMPUTE, _NETWORK = "Microsoft.Compute", "Microsoft.Network"
_SUBNET = f"{_NETWORK}/virtualNetworks/subnets/join/action"
_PLACED: Final = f"{_COMPUTE}/proximityPlacementGroups/write"
_PREFIX: Final = f"{_NETWORK}/publicIPPrefixes/join/action"
_BY_REFERENCE: Final = {  # {"<key>": {"id": ...}}, or a list of such
    "subnet": _SUBNET,
    "networkSecurityGroup": f"{_NETWORK}/networkSecurityGroups/join/action",
    "loadBalancerBackendAddressPools": f"{_NETWORK}/loadBalancers/backendAddressPools/join/action",
    "networkInterfaces": f"{_NETWORK}/networkInterfaces/join/action",
    "publicIPPrefix": _PREFIX,
    "diskEncryptionSet": f"{_COMPUTE}/diskEncryptionSets/read",
    "proximityPlacementGroup": _PLACED,
    "availabilitySet": f"{_COMPUTE}/availabilitySets/write",
}
_BY_ID: Final = {  # {"<key>": "<id>"}, as agent pools have it
    "vnetSubnetID": _SUBNET,
    "podSubnetID": _SUBNET,
    "proximityPlacementGroupID": _PLACED,
    "nodePublicIPPrefixID": _PREFIX,
}
_IMAGE, _GALLERY_IMAGE = f"{_COMPUTE}/images/read", f"{_COMPUTE}/galleries/images/versions/read"
_IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action"
_METHODS: Final = {"GET": "read", "HEAD": "read", "PUT": "write", "PATCH": "write", "DELETE": "delete"}
_CLIENT = "The client 'sluice' with object id '00000000-0000-0000-0000-00000000000a'"


@dataclass(frozen=True, slots=True)
class Grant:
    """A role at a scope: `actions` without wildcards."""

    role: str
    scope: str
    actions: frozenset[str]

    def covers(self, demand: Demand) -> bool:
        """Whether it gives this right: scopes hold for all that lies below them, and case does not matter."""
        wanted, scope = demand.scope.lower(), self.scope.lower().rstrip("/")
        below = wanted == scope or wanted.startswith(f"{scope}/")
        return below and demand.action.lower() in _lowered(self.actions)


@dataclass(frozen=True, slots=True)
class Demand:
    """An action on a scope; `linked` where the request only refers to it."""

    action: str
    scope: str
    linked: bool = False


class GuardedArm:
    """A door to the stand-in for whoever has these grants and no other; see `local.web.Handler`.

    `estate`: what there is, since the model of a scale set says what it uses. `on_demand` hears of each right that a
    request needs, with whether it was there.
    """

    def __init__(
        self,
        inner: Handler,
        estate: Callable[[], Estate],
        grants: Iterable[Grant],
        on_demand: Callable[[Demand, bool], None] = lambda *_: None,
    ) -> None:
        self._inner, self._estate, self._grants, self._on_demand = inner, estate, tuple(grants), on_demand
        self._homes: dict[str, str] = {}

    def handle(self, request: Request) -> Response:
        """Refuse with 403, or hand on."""
        try:
            target = parse_path(request.path)
            self._check(list(self._demands(request, target)))
        except ArmError as refusal:
            return refusal.response()
        response = self._inner.handle(request)
        status_url = response.headers.get("azure-asyncoperation", "")
        if status_url:
            self._homes[_operation_id(status_url)] = (
                f"/subscriptions/{target.subscription}/resourceGroups/{target.group}"
            )
        return response

    def _check(self, demands: list[Demand]) -> None:
        own = demands[0]
        for demand in demands:
            granted = any(grant.covers(demand) for grant in self._grants)
            self._on_demand(demand, granted)
            if not granted:
                raise ArmError(403, *(_linked_refusal(own, demand) if demand.linked else _refusal(demand)))

    def _demands(self, request: Request, target: Target) -> Iterator[Demand]:
        yield self._own(request, target)
        if request.method not in {"PUT", "PATCH"}:
            return
        body = _json(request)
        home = f"/subscriptions/{target.subscription}/resourceGroups/{target.group}"
        yield from _unique(linked(body))
        if target.pattern == "microsoft.compute/virtualmachinescalesets/*":
            group = self._estate().group(target.subscription, target.group)
            there = group.scale_sets.get(target.names[0].lower())
            yield from _unique(linked(there.model)) if there is not None else ()
        if target.pattern == "microsoft.compute/virtualmachines/*":
            yield from (Demand(action, home, linked=True) for action in _made_with(body))

    def _own(self, request: Request, target: Target) -> Demand:
        """The action of the request itself; operations count as the resource group's in which they were begun."""
        action, scope = _action_and_scope(request)
        if "/locations/*/operation" in target.pattern:
            scope = self._homes.get(target.names[-1], scope)
        return Demand(action, scope)


def linked(value: Any) -> Iterator[Demand]:  # noqa: ANN401 - any JSON
    """What a body refers to; a reference without an id names nothing."""
    if isinstance(value, list):
        for item in value:
            yield from linked(item)
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        yield from (Demand(*found, linked=True) for found in _referred(key, item))
        yield from linked(item)


def _referred(key: str, item: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - any JSON
    """(action, scope) for one entry of a body."""
    if key in _BY_ID and item:
        yield _BY_ID[key], str(item)
    if key == "userAssignedIdentities":
        yield from ((_IDENTITY, name) for name in item or ())
    if key == "imageReference" and isinstance(item, dict) and item.get("id"):
        name = str(item["id"])
        yield (_GALLERY_IMAGE if "/galleries/" in name.lower() else _IMAGE), name
    if key in _BY_REFERENCE:
        for each in item if isinstance(item, list) else [item]:
            if isinstance(each, dict) and each.get("id"):
                yield _BY_REFERENCE[key], str(each["id"])


def _made_with(body: Json) -> Iterator[str]:
    """The rights for what compute makes along with a VM, in the VM's own resource group."""
    properties = body.get("properties") or {}
    if properties.get("storageProfile"):
        yield f"{_COMPUTE}/disks/write"
    configurations = (properties.get("networkProfile") or {}).get("networkInterfaceConfigurations") or ()
    if configurations:
        yield from (f"{_NETWORK}/networkInterfaces/{verb}" for verb in ("write", "join/action"))
    if any("publicIPAddressConfiguration" in str(configuration) for configuration in configurations):
        yield from (f"{_NETWORK}/publicIPAddresses/{verb}" for verb in ("write", "join/action"))


def _action_and_scope(request: Request) -> tuple[str, str]:
    """By path and method alone: what the query asks for beside has no action of its own."""
    head, _, rest = request.path.strip("/").partition("/providers/")
    provider, *parts = rest.split("/")
    kinds, names = parts[::2], parts[1::2]
    kind = "/".join((provider, *kinds))
    if request.method == "POST":
        return f"{kind}/action", f"/{head}/providers/{provider}/{'/'.join(parts[:-1])}"
    whole = len(kinds) == len(names)
    below = parts if whole else parts[:-1]
    return f"{kind}/{_METHODS[request.method]}", "/".join((f"/{head}/providers/{provider}", *below))


def _refusal(demand: Demand) -> tuple[str, str]:
    message = (
        f"{_CLIENT} does not have authorization to perform action '{demand.action}' over scope '{demand.scope}' or the"
        " scope is invalid. If access was recently granted, please refresh your credentials."
    )
    return "AuthorizationFailed", message


def _linked_refusal(own: Demand, demand: Demand) -> tuple[str, str]:
    message = (
        f"{_CLIENT} has permission to perform action '{own.action}' on scope '{own.scope}'; however, it does not have"
        f" permission to perform action(s) '{demand.action}' on the linked scope(s) '{demand.scope}' (respectively) or"
        " the linked scope(s) are invalid."
    )
    return "LinkedAuthorizationFailed", message


@lru_cache(maxsize=256)
def _lowered(actions: frozenset[str]) -> frozenset[str]:
    return frozenset(action.lower() for action in actions)


def _operation_id(url: str) -> str:
    return url.partition("?")[0].rsplit("/", 1)[-1]


def _json(request: Request) -> Json:
    try:
        body = request.json()
    except orjson.JSONDecodeError:
        return {}  # the stand-in itself says what is wrong with it
    return body if isinstance(body, dict) else {}


def _unique(demands: Iterable[Demand]) -> Iterable[Demand]:
    return dict.fromkeys(demands)
