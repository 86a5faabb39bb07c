"""Judges of topics, subscriptions, rights, ways to the API server, clocks, versions, sizes and the exporter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from local.doctor import (
    judging_clocks,
    judging_exporter,
    judging_reach,
    judging_rights,
    judging_sizes,
    judging_topic,
    judging_versions,
)
from local.doctor.findings import Cause, Check, Finding, Status, exit_code
from local.doctor.judging_reach import Way
from local.doctor.judging_rights import Need, Permission
from shared.adapters.app_access import NO_TOKEN
from shared.adapters.kubernetes import NO_NAME, SILENT, UNTRUSTED
from shared.adapters.reaching import REFUSED
from shared.names import EVENT_TYPES
from shared.settings.config import parse_config

Json = dict[str, Any]
APP, URL = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Web/sites/app", "https://app.azurewebsites.net"
TOPIC: Json = {
    "name": "topic",
    "properties": {
        "provisioningState": "Succeeded",
        "inputSchema": "CloudEventSchemaV1_0",
        "publicNetworkAccess": "Enabled",
        "disableLocalAuth": True,
    },
}
SUBSCRIPTION: Json = {
    "name": "sluice-ingest",
    "properties": {
        "provisioningState": "Succeeded",
        "eventDeliverySchema": "CloudEventSchemaV1_0",
        "destination": {"endpointType": "AzureFunction", "properties": {"resourceId": f"{APP}/functions/ingest"}},
        "filter": {"includedEventTypes": list(EVENT_TYPES)},
        "deadLetterWithResourceIdentity": {"deadLetterDestination": {}},
    },
}
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def with_properties(body: Json, **changes: object) -> Json:
    return {**body, "properties": {**body["properties"], **changes}}


@pytest.mark.parametrize(
    ("changes", "status", "told"),
    [
        ({}, Status.OK, "takes CloudEvents"),
        ({"provisioningState": "Failed"}, Status.FAILED, "is Failed"),
        ({"inputSchema": "EventGridSchema"}, Status.FAILED, "takes EventGridSchema"),
        ({"disableLocalAuth": False}, Status.WARNING, "one of its keys"),
        ({"publicNetworkAccess": "Disabled"}, Status.WARNING, "private endpoint"),
    ],
)
def test_a_topic_takes_cloud_events_from_identities_alone(changes: Json, status: Status, told: str) -> None:
    finding = judging_topic.judge_topic("training", with_properties(TOPIC, **changes))
    assert finding.status is status
    assert told in finding.message
    assert bool(finding.remedy) == (status is not Status.OK)


@pytest.mark.parametrize(
    ("changes", "status", "told"),
    [
        ({}, Status.OK, "every kind of event"),
        ({"filter": {"includedEventTypes": None}}, Status.OK, "every kind of event"),
        ({"filter": {"includedEventTypes": list(EVENT_TYPES[1:])}}, Status.FAILED, f"leaves out {EVENT_TYPES[0]}"),
        ({"provisioningState": "AwaitingManualAction"}, Status.FAILED, "the handshake did not come about"),
        ({"provisioningState": "Failed"}, Status.FAILED, "is Failed"),
        ({"eventDeliverySchema": "EventGridSchema"}, Status.FAILED, "delivers EventGridSchema"),
        ({"deadLetterWithResourceIdentity": None}, Status.WARNING, "drops what it cannot deliver"),
        (
            {"destination": {"properties": {"resourceId": f"{APP}x/functions/ingest"}}},
            Status.FAILED,
            "no subscription of the topic leads to ingest of this app (there: sluice-ingest)",
        ),
    ],
)
def test_a_subscription_brings_every_kind_of_event_to_the_app(changes: Json, status: Status, told: str) -> None:
    finding = judging_topic.judge_subscription("training", [with_properties(SUBSCRIPTION, **changes)], APP, URL)
    assert finding.status is status
    assert told in finding.message
    assert bool(finding.remedy) == (status is not Status.OK)


def test_two_subscriptions_deliver_everything_twice() -> None:
    finding = judging_topic.judge_subscription("training", [SUBSCRIPTION, {**SUBSCRIPTION, "name": "old"}], APP, URL)
    assert (finding.status, finding.remedy) == (Status.WARNING, "keep sluice-ingest, and delete: old")


READ, WRITE = "Microsoft.Compute/virtualMachineScaleSets/read", "Microsoft.Compute/virtualMachineScaleSets/write"
GROUP = "/subscriptions/s/resourceGroups/nodes"


@pytest.mark.parametrize(
    ("permission", "lacking"),
    [
        (Permission(GROUP, (READ, WRITE)), ""),
        (Permission("/subscriptions/S", ("microsoft.compute/*",)), ""),
        (Permission(f"{GROUP}/providers/x/y", (READ, WRITE)), READ),
        (Permission("/subscriptions/s/resourceGroups/node", (READ, WRITE)), READ),
        (Permission(GROUP, (READ,)), WRITE),
        (Permission(GROUP, ("*",), ("*/write",)), WRITE),
    ],
)
def test_rights_hold_at_their_scope_and_below_for_what_they_name(permission: Permission, lacking: str) -> None:
    need = Need("scale-sets", GROUP, (READ, WRITE), ("spot",))
    (finding,) = judging_rights.judge([need], [permission], {})
    assert finding.bad == bool(lacking)
    assert lacking in finding.message
    assert finding.cause is (Cause.RIGHTS if lacking else Cause.SETTING)


def test_role_assignments_become_permissions_by_their_definitions() -> None:
    definition = {"properties": {"permissions": [{"actions": [READ], "notActions": [WRITE]}, {"actions": ["x"]}]}}
    assigned = [{"properties": {"scope": GROUP, "roleDefinitionId": "d"}}]
    assert judging_rights.permissions_of(assigned, {"d": definition}) == (
        Permission(GROUP, (READ,), (WRITE,)),
        Permission(GROUP, ("x",)),
    )


@pytest.mark.parametrize(
    ("obstacle", "profile", "remedy", "cause"),
    [
        (SILENT, {"authorizedIPRanges": ["1.2.3.4/32"]}, "output outbound_address", Cause.UNREACHABLE),
        (SILENT, {"enablePrivateCluster": True}, "a subnet in the cluster's network", Cause.UNREACHABLE),
        (SILENT, {}, "look for a firewall", Cause.UNREACHABLE),
        (NO_NAME, {"enablePrivateCluster": True}, "private DNS zone", Cause.UNREACHABLE),
        (NO_NAME, {}, "check `server` in the app's kubeconfig", Cause.UNREACHABLE),
        (UNTRUSTED, {}, "certificate-authority-data", Cause.UNREACHABLE),
        (REFUSED, {}, "make the app known to the cluster", Cause.RIGHTS),
        (NO_TOKEN, {}, "AZURE_CLIENT_ID", Cause.RIGHTS),
    ],
)
def test_each_way_to_an_api_server_fails_in_its_own_manner(
    obstacle: str, profile: Json, remedy: str, cause: Cause
) -> None:
    way = judging_reach.way_of({"properties": {"apiServerAccessProfile": profile}})
    finding = judging_reach.judge("training", {"obstacle": obstacle, "reason": "why"}, way)
    assert (finding.bad, finding.cause) == (True, cause)
    assert remedy in finding.remedy
    assert finding.message == f"does not answer the app ({way}): why"


@pytest.mark.parametrize(
    ("ranges", "outbound", "bad"),
    [
        (["20.1.2.0/24"], "20.1.2.3", False),
        (["9.9.9.9", "20.1.2.3/32"], "20.1.2.3", False),
        (["9.9.9.9/32"], "20.1.2.3", True),
    ],
)
def test_the_apps_address_is_among_the_authorised_ranges(ranges: list[str], outbound: str, bad: bool) -> None:
    body = {"properties": {"apiServerAccessProfile": {"authorizedIPRanges": ranges}}}
    finding = judging_reach.judge_ranges("training", body, outbound)
    assert finding is not None
    assert finding.bad is bad
    assert not bad or finding.remedy.endswith("--api-server-authorized-ip-ranges 9.9.9.9/32,20.1.2.3/32")


@pytest.mark.parametrize(("ranges", "outbound"), [([], "20.1.2.3"), (["9.9.9.9/32"], "")])
def test_without_ranges_or_a_fixed_address_there_is_nothing_to_compare(ranges: list[str], outbound: str) -> None:
    body = {"properties": {"apiServerAccessProfile": {"authorizedIPRanges": ranges}}}
    assert judging_reach.judge_ranges("training", body, outbound) is None


def test_where_nobody_says_which_way_is_meant_all_of_them_are_named() -> None:
    assert judging_reach.way_of(None) is Way.UNKNOWN
    finding = judging_reach.judge("training", {"obstacle": SILENT, "reason": "why"}, Way.UNKNOWN)
    assert finding.message == "does not answer the app: why"
    assert "authorised ranges" in finding.remedy


@pytest.mark.parametrize(
    ("offsets", "wrong"),
    [
        ({"ARM": 2.0, "the app": -3.0}, {}),
        ({"ARM": 400.0, "the app": 401.0}, {"this machine": "is 400 s behind"}),
        ({"ARM": 0.0, "the app": 95.0}, {"the app": "is 95 s ahead"}),
    ],
)
def test_the_clock_that_differs_from_the_others_is_the_wrong_one(offsets: dict[str, float], wrong: Json) -> None:
    heard = {name: timedelta(seconds=seconds) for name, seconds in offsets.items()}
    findings = [finding for finding in judging_clocks.judge(heard) if finding.bad]
    assert {finding.subject: finding.message.partition(";")[0] for finding in findings} == wrong


@pytest.mark.parametrize(
    ("said", "status"),
    [("v1.33.2", Status.OK), ("v1.24.9", Status.FAILED), ("v1.31.2-eks-1", Status.OK), ("nonsense", Status.WARNING)],
)
def test_an_old_api_server_is_told(said: str, status: Status) -> None:
    assert judging_versions.judge_cluster("training", said).status is status


def test_an_app_of_another_version_or_python_is_told() -> None:
    told = list(judging_versions.judge_app("0.2.0", "0.1.0", "3.12.1"))
    assert [finding.status for finding in told] == [Status.WARNING, Status.FAILED]


OFFER: Json = {
    "name": "Standard_D4s_v5",
    "locationInfo": [{"zones": ["1", "2"]}],
    "restrictions": [],
    "capabilities": [
        {"name": "vCPUs", "value": "4"},
        {"name": "MemoryGB", "value": "16"},
        {"name": "LowPriorityCapable", "value": "True"},
    ],
}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        ({"restrictions": [{"type": "Location", "reasonCode": "NotAvailableForSubscription"}]}, "not to be had in"),
        ({"restrictions": [{"type": "Zone", "restrictionInfo": {"zones": ["1"]}}]}, "zone 1 of westeurope"),
        ({"restrictions": [{"type": "Zone", "restrictionInfo": {"zones": ["3"]}}]}, ""),
        ({"locationInfo": [{"zones": ["2"]}]}, "zones: Standard_D4s_v5 is not offered in zone 1"),
        ({"capabilities": [{"name": "vCPUs", "value": "2"}]}, "shape.cpu: the pools file says more"),
        ({"capabilities": [{"name": "LowPriorityCapable", "value": "False"}]}, "not offered as Spot"),
    ],
)
def test_a_size_is_offered_where_the_pool_is(changes: Json, told: str) -> None:
    azure = "{subscription: 00000000-0000-0000-0000-000000000001, resource_group: g, location: westeurope}"
    text = (
        f"cluster: c\nazure: {azure}\npools: [{{name: p, sku: Standard_D4s_v5, priority: Spot, max: 1, zones: ['1']}}]"
    )
    (finding, *_) = judging_sizes.judge(parse_config(text).pools[0], {"standard_d4s_v5": {**OFFER, **changes}})
    assert finding.bad == bool(told)
    assert told in finding.message


def lease(**spec: object) -> Json:
    renewed = (NOW - timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    full = {"holderIdentity": "e-1", "renewTime": renewed, "leaseDurationSeconds": 30, **spec}
    return {"metadata": {"namespace": "sluice"}, "spec": full}


@pytest.mark.parametrize(
    ("leases", "told"),
    [
        ([lease()], ""),
        ([lease(renewTime="2026-11-21T10:00:00.000000Z"), lease()], ""),
        ([], "no exporter has ever run"),
        ([lease(holderIdentity="")], "nobody holds the Lease sluice/sluice-exporter"),
        ([lease(renewTime="2026-11-21T11:58:00.000000Z")], "e-1 has been silent for 120 s"),
    ],
)
def test_who_holds_the_lease_renews_it(leases: list[Json], told: str) -> None:
    finding = judging_exporter.judge("training", leases, NOW)
    assert finding.bad == bool(told)
    assert told in finding.message


def agent(*, ready: bool = True, host: bool = False) -> Json:
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    return {"metadata": {"name": "agent-1"}, "spec": {"hostNetwork": host}, "status": status}


@pytest.mark.parametrize(
    ("pods", "restricted", "status", "told"),
    [
        ([agent()], False, Status.OK, "nodeAgent.hostNetwork is not needed"),
        ([agent()], True, Status.FAILED, "podLinkLocalAccess: None"),
        ([agent(host=True)], True, Status.OK, "listen for evictions"),
        ([agent(ready=False)], False, Status.WARNING, "1 of 1 node agents are not ready"),
        ([], False, Status.SKIPPED, "no node agent runs"),
    ],
)
def test_node_agents_need_the_hosts_network_where_pods_do_not_reach_the_metadata_service(
    pods: list[Json], restricted: bool, status: Status, told: str
) -> None:
    finding = judging_exporter.judge_agents("training", pods, spot=True, restricted=restricted)
    assert finding is not None
    assert finding.status is status
    assert told in finding.message


def test_without_spot_pools_no_node_agent_is_missed() -> None:
    assert judging_exporter.judge_agents("training", [], spot=False, restricted=False) is None


CHECK = Check("x")


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([CHECK.ok("a"), CHECK.warning("a", "b"), CHECK.skipped("a", "b")], 0),
        ([CHECK.failed("a", "b")], 5),
        ([CHECK.failed("a", "b"), CHECK.failed("a", "b", Cause.RIGHTS)], 4),
        ([CHECK.failed("a", "b", Cause.RIGHTS), CHECK.failed("a", "b", Cause.UNREACHABLE)], 3),
    ],
)
def test_the_exit_code_is_what_stands_first_in_the_way(findings: list[Finding], code: int) -> None:
    assert exit_code(findings) == code
