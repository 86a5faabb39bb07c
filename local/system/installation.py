"""What the stages `base` and `wire` would have made for an embedded system, shown by the ARM stand-in to
`sluice doctor`: the app, its topic and subscription as they are, and the app's rights as `infra/roles` has them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from local.arm.pools import DEFAULT_SCOPE
from local.event_grid import Subscription
from local.roles import BY_KIND, LINKED, MACHINES, QUOTA, Role, read_roles
from local.system.azure_side import AzureSide
from shared.model import AzureScope, PoolKind

Json = dict[str, Any]
PRINCIPAL = "00000000-0000-0000-0000-0000000000aa"
_KEY = "local"


class ShownInstallation:
    """Puts its documents into the ARM stand-in of `side`. For whoever wants trouble: `grants` are the app's roles (role
    file, scope), `operator` what whoever asks may do, `autoscale` the autoscale settings of every group."""

    def __init__(self, side: AzureSide) -> None:
        self._side = side
        cluster, home = side.config.cluster, _home(side)
        self.app_id = f"{home}/providers/Microsoft.Web/sites/sluice-{cluster}"
        self.topic_id = f"{home}/providers/Microsoft.EventGrid/topics/sluice-{cluster}"
        self._roles = read_roles()
        self.grants = list(dict.fromkeys(_grants(side)))
        self.operator: list[Json] = [{"actions": ["*"], "notActions": []}]
        self.autoscale: list[Json] = []
        self._show(_subscription(home))

    def outputs(self) -> Json:
        """What `local.doctor.installation.Installation` is made of, beside the app's address."""
        topics = {self._side.config.cluster: self.topic_id}
        return {"app_id": self.app_id, "principal": PRINCIPAL, "topics": topics}

    def _show(self, subscription: str) -> None:
        documents = self._side.arm.documents
        documents.show(self.app_id, lambda: {"id": self.app_id, "properties": {"state": "Running"}})
        documents.show(
            f"{self.app_id}/host/default/listKeys", lambda: {"systemKeys": {"eventgrid_extension": _KEY}}, "POST"
        )
        documents.show(self.topic_id, self.topic)
        documents.show(f"{self.topic_id}/providers/Microsoft.EventGrid/eventSubscriptions", self.subscriptions)
        for group in {_group(each) for each in _scopes(self._side)}:
            documents.show(f"{group}/providers/Microsoft.Insights/autoscalesettings", lambda: self.autoscale)
            documents.show(f"{group}/providers/Microsoft.Authorization/permissions", lambda: self.operator)
        subscriptions = {subscription, *(f"/subscriptions/{each.subscription}" for each in _scopes(self._side))}
        for each in subscriptions:
            documents.show(f"{each}/providers/Microsoft.Authorization/roleAssignments", self.assignments)
            for name, role in self._roles.items():
                documents.show(_definition(each, name), partial(_definition_json, role))

    def topic(self) -> Json:
        """The topic as it is; its keys are the exporter's identity here."""
        properties = {
            "provisioningState": "Succeeded",
            "inputSchema": "CloudEventSchemaV1_0",
            "publicNetworkAccess": "Enabled",
            "disableLocalAuth": False,
        }
        return {"id": self.topic_id, "name": self.topic_id.rsplit("/", 1)[-1], "properties": properties}

    def subscriptions(self) -> list[Json]:
        """Those that the topic delivers to."""
        return [_subscription_json(each, self.topic_id) for each in self._side.topic.subscriptions]

    def assignments(self) -> list[Json]:
        """The app's roles, at their scopes."""
        return [
            {
                "properties": {
                    "scope": scope,
                    "principalId": PRINCIPAL,
                    "roleDefinitionId": _definition(_subscription(scope), role),
                }
            }
            for role, scope in self.grants
        ]


def _home(side: AzureSide) -> str:
    scope = next(iter(_scopes(side)), DEFAULT_SCOPE)
    return f"/subscriptions/{scope.subscription}/resourceGroups/sluice-base"


def _scopes(side: AzureSide) -> Iterator[AzureScope]:
    yield from (pool.azure for pool in side.config.pools if pool.azure is not None)


def _grants(side: AzureSide) -> Iterator[tuple[str, str]]:
    for pool in side.config.pools:
        scope = pool.azure or DEFAULT_SCOPE
        yield BY_KIND[pool.kind], _group(scope)
        yield LINKED, _group(scope)
        yield QUOTA, f"/subscriptions/{scope.subscription}"
        if pool.kind is PoolKind.AKS:
            nodes = f"MC_{scope.resource_group}_{scope.aks_cluster}_{scope.location}"
            yield MACHINES, f"/subscriptions/{scope.subscription}/resourceGroups/{nodes}"


def _group(scope: AzureScope) -> str:
    return f"/subscriptions/{scope.subscription}/resourceGroups/{scope.resource_group}"


def _subscription(scope: str) -> str:
    return "/".join(scope.split("/")[:3])


def _definition(subscription: str, role: str) -> str:
    return f"{subscription}/providers/Microsoft.Authorization/roleDefinitions/{role}"


def _definition_json(role: Role) -> Json:
    return {"properties": {"roleName": role.name, "permissions": [{"actions": list(role.actions), "notActions": []}]}}


def _subscription_json(subscription: Subscription, topic_id: str) -> Json:
    properties = {
        "provisioningState": "Succeeded",
        "topic": topic_id,
        "eventDeliverySchema": "CloudEventSchemaV1_0",
        "destination": {
            "endpointType": "WebHook",
            "properties": {"endpointBaseUrl": subscription.url.partition("?")[0]},
        },
        "filter": {"includedEventTypes": list(subscription.event_types) or None},
        "deadLetterDestination": {"endpointType": "StorageBlob"},
    }
    return {"name": subscription.name, "properties": properties}
