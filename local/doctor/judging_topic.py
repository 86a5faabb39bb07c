"""The Event Grid topic of a cluster and the subscription that brings its events to the app.

Source: ARM reference, Microsoft.EventGrid/topics and eventSubscriptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from local.doctor.findings import Check, Finding
from shared.names import DEAD_LETTER_CONTAINER, EVENT_TYPES

Json = dict[str, Any]
CLOUD_EVENTS = "CloudEventSchemaV1_0"
INGEST = "ingest"
_WIRE = "apply the stage wire (infra/terraform/wire, or infra/bicep/wire.bicep)"
_BASE = "apply the stage base again (infra/terraform/base, or infra/bicep/base.bicep)"


def judge_topic(cluster: str, body: Json | None, *, keys_expected: bool = False) -> Finding:
    """`body` None: there is no such topic. `keys_expected`: publishers have nothing better here."""
    check = Check("topic", cluster)
    if body is None:
        return check.failed("the topic is not there", _BASE)
    properties, name = body.get("properties", {}), body.get("name", cluster)
    if (state := properties.get("provisioningState")) != "Succeeded":
        return check.failed(f"topic {name} is {state}", f"{_BASE}, and see its activity log for the reason")
    if (schema := properties.get("inputSchema")) != CLOUD_EVENTS:
        told = f"topic {name} takes {schema}, and the exporter sends CloudEvents"
        return check.failed(told, f"a topic keeps its schema for life: delete it, then {_BASE}")
    if properties.get("publicNetworkAccess") == "Disabled":
        told = f"topic {name} takes events from its private endpoint only"
        return check.warning(told, "see that the cluster's network reaches that endpoint, and resolves its name")
    if not properties.get("disableLocalAuth") and not keys_expected:
        told = f"topic {name} takes events from whoever has one of its keys"
        return check.warning(told, f"nobody needs them: {_BASE}, which switches them off (local_auth_enabled = false)")
    return check.ok(f"topic {name} takes CloudEvents")


def judge_subscription(cluster: str, subscriptions: Iterable[Json], app_id: str, app_url: str) -> Finding:
    """All subscriptions of the topic; one must bring every kind of event to the app's `ingest`."""
    check = Check("subscription", cluster)
    everything = list(subscriptions)
    ours = [each for each in everything if _leads_to(each, app_id, app_url)]
    if not ours:
        others = ", ".join(sorted(str(each.get("name")) for each in everything)) or "none"
        return check.failed(f"no subscription of the topic leads to {INGEST} of this app (there: {others})", _WIRE)
    told = [_problem(each) for each in ours]
    if not all(told):
        return _well(check, ours[told.index(None)], ours)
    name, (problem, remedy) = ours[0].get("name"), next(each for each in told if each)
    return check.failed(f"subscription {name} {problem}", remedy)


def _well(check: Check, body: Json, ours: Sequence[Json]) -> Finding:
    name = body.get("name")
    if len(ours) > 1:
        told = f"{len(ours)} subscriptions lead to {INGEST}: each event comes as often"
        return check.warning(told, f"keep {name}, and delete: {', '.join(str(each.get('name')) for each in ours[1:])}")
    if not _has_dead_letters(body["properties"]):
        told = f"subscription {name} drops what it cannot deliver"
        return check.warning(told, f"{_WIRE}: it sends such events to the container {DEAD_LETTER_CONTAINER}")
    return check.ok(f"subscription {name} brings every kind of event to {INGEST}")


def _problem(body: Json) -> tuple[str, str] | None:
    properties = body.get("properties", {})
    state = properties.get("provisioningState")
    if state == "AwaitingManualAction":
        wait = "wait for the app (sluice doctor --wait-for ingest)"
        return "was never confirmed: the handshake did not come about", f"{wait}, delete the subscription, then {_WIRE}"
    if state != "Succeeded":
        return f"is {state}", f"delete it, then {_WIRE}"
    if (schema := properties.get("eventDeliverySchema")) != CLOUD_EVENTS:
        return f"delivers {schema}, and {INGEST} takes {CLOUD_EVENTS}", _WIRE
    included = (properties.get("filter") or {}).get("includedEventTypes") or EVENT_TYPES
    if missing := sorted(set(EVENT_TYPES) - set(included)):
        return f"leaves out {', '.join(missing)}", _WIRE
    return None


def _leads_to(body: Json, app_id: str, app_url: str) -> bool:
    properties = body.get("properties", {})
    destination = (
        properties.get("destination") or (properties.get("deliveryWithResourceIdentity") or {}).get("destination")
    ) or {}
    told = destination.get("properties") or {}
    if str(told.get("resourceId", "")).lower() == f"{app_id}/functions/{INGEST}".lower():
        return True
    return bool(app_url) and str(told.get("endpointBaseUrl", "")).lower().startswith(app_url.lower())


def _has_dead_letters(properties: Json) -> bool:
    return bool(properties.get("deadLetterDestination") or properties.get("deadLetterWithResourceIdentity"))
