"""ARM's authorisation, on the wire: what is asked of whom, and how a refusal is worded."""

from __future__ import annotations

import orjson
import pytest

from local.arm import ArmStandIn
from local.arm.rights import Demand, Grant, GuardedArm, linked
from local.timeline import VirtualTimeline
from local.web import Request

SUBSCRIPTION = "/subscriptions/00000000-0000-0000-0000-000000000001"
GROUP = f"{SUBSCRIPTION}/resourceGroups/nodes"
CHILD = "virtualMachines"
SETS, VMS = "Microsoft.Compute/virtualMachineScaleSets", "Microsoft.Compute/virtualMachines"


def door_with(grants: list[Grant], heard: list[Demand] | None = None) -> GuardedArm:
    arm = ArmStandIn(VirtualTimeline())
    note = [] if heard is None else heard
    return GuardedArm(arm, lambda: arm.cloud.estate, grants, lambda demand, _: note.append(demand))


def demanded(method: str, path: str) -> list[Demand]:
    """What a request asks for first."""
    heard: list[Demand] = []
    door_with([], heard).handle(Request(method, path, {"api-version": "1"}, {}))
    return heard


@pytest.mark.parametrize(
    ("method", "path", "action", "scope"),
    [
        ("GET", f"{GROUP}/providers/{SETS}", f"{SETS}/read", f"{GROUP}/providers/Microsoft.Compute"),
        ("GET", f"{GROUP}/providers/{SETS}/a", f"{SETS}/read", f"{GROUP}/providers/{SETS}/a"),
        ("GET", f"{GROUP}/providers/{SETS}/a/{CHILD}", f"{SETS}/{CHILD}/read", f"{GROUP}/providers/{SETS}/a"),
        ("POST", f"{GROUP}/providers/{SETS}/a/delete", f"{SETS}/delete/action", f"{GROUP}/providers/{SETS}/a"),
        ("DELETE", f"{GROUP}/providers/{VMS}/a", f"{VMS}/delete", f"{GROUP}/providers/{VMS}/a"),
        ("GET", f"{GROUP}/providers/{VMS}/a/instanceView", f"{VMS}/instanceView/read", f"{GROUP}/providers/{VMS}/a"),
        (
            "GET",
            f"{SUBSCRIPTION}/providers/Microsoft.Compute/locations/w/usages",
            "Microsoft.Compute/locations/usages/read",
            f"{SUBSCRIPTION}/providers/Microsoft.Compute/locations/w",
        ),
    ],
)
def test_the_action_follows_from_path_and_method(method: str, path: str, action: str, scope: str) -> None:
    assert demanded(method, path) == [Demand(action, scope)]


def test_a_scope_covers_what_lies_below_it_and_nothing_beside() -> None:
    grant = Grant("r", GROUP.upper(), frozenset({"Microsoft.Compute/disks/READ"}))
    assert grant.covers(Demand("microsoft.compute/disks/read", f"{GROUP}/providers/Microsoft.Compute/disks/d"))
    assert not grant.covers(Demand("Microsoft.Compute/disks/read", f"{GROUP}2/providers/Microsoft.Compute/disks/d"))
    assert not grant.covers(Demand("Microsoft.Compute/disks/delete", f"{GROUP}/providers/Microsoft.Compute/disks/d"))


def test_a_missing_right_is_refused_in_azure_s_words() -> None:
    answer = door_with([]).handle(Request("GET", f"{GROUP}/providers/{VMS}", {"api-version": "1"}, {}))
    error = orjson.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (403, "AuthorizationFailed")
    assert f"perform action '{VMS}/read' over scope '{GROUP}/providers/Microsoft.Compute'" in error["message"]


def test_what_a_body_refers_to_is_asked_for_too() -> None:
    reference = "/subscriptions/s/x"
    body = {
        "identity": {"userAssignedIdentities": {"/i": {}}},
        "properties": {"subnet": {"id": reference}, "availabilitySet": {"id": reference}, "networkSecurityGroup": None},
    }
    assert {(each.action, each.scope) for each in linked(body)} == {
        ("Microsoft.ManagedIdentity/userAssignedIdentities/assign/action", "/i"),
        ("Microsoft.Network/virtualNetworks/subnets/join/action", reference),
        ("Microsoft.Compute/availabilitySets/write", reference),
    }
    assert all(each.linked for each in linked(body))


def test_a_linked_refusal_names_both_rights() -> None:
    grant = Grant("r", GROUP, frozenset({f"{VMS}/write"}))
    body = {"properties": {"subnet": {"id": "/subscriptions/s/subnets/a"}}}
    request = Request("PUT", f"{GROUP}/providers/{VMS}/a", {"api-version": "1"}, {}, orjson.dumps(body))
    answer = door_with([grant]).handle(request)
    error = orjson.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (403, "LinkedAuthorizationFailed")
    assert f"has permission to perform action '{VMS}/write'" in error["message"]
    lacking = (
        "'Microsoft.Network/virtualNetworks/subnets/join/action' on the linked scope(s) '/subscriptions/s/subnets/a'"
    )
    assert lacking in error["message"]


@pytest.mark.parametrize(
    ("image", "action"),
    [
        ("/subscriptions/s/providers/Microsoft.Compute/images/i", "Microsoft.Compute/images/read"),
        (
            "/subscriptions/s/providers/Microsoft.Compute/galleries/g/images/i/versions/1",
            "Microsoft.Compute/galleries/images/versions/read",
        ),
    ],
)
def test_an_image_is_read_by_its_kind(image: str, action: str) -> None:
    assert [each.action for each in linked({"imageReference": {"id": image}})] == [action]


def test_an_image_of_the_marketplace_needs_no_right() -> None:
    assert list(linked({"imageReference": {"publisher": "canonical", "offer": "ubuntu"}})) == []
