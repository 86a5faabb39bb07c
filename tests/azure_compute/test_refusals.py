import pytest
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError, ServiceResponseError

from local.arm import Fault
from local.azure_transport import HandlerTransport, NoAuthentication, NoCredential
from local.timeline import VirtualTimeline
from shared.adapters.azure_compute import make_compute
from shared.adapters.azure_errors import error_of, from_answer, retry_after, translate
from shared.adapters.errors import (
    CapacityMissing,
    NotFound,
    OutsideError,
    Refused,
    Rejected,
    RetryLater,
    StaleWrite,
    Throttled,
    Unreachable,
)
from shared.model import PoolKind
from tests.azure_compute.world import SCOPE, World
from tests.builders import pool

REMEDY = "assign it a role with this action there (infra/roles/README.md says which), and wait ten minutes"


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    [
        (400, "InvalidParameter", "no", Rejected),
        (401, "ExpiredAuthenticationToken", "old", Refused),
        (403, "AuthorizationFailed", "no", Refused),
        (404, "ResourceNotFound", "no", NotFound),
        (409, "Conflict", "busy", StaleWrite),
        (409, "OperationNotAllowed", "the VM is being deleted", StaleWrite),
        (409, "OperationNotAllowed", "exceeding approved standardDSv5Family Cores quota", CapacityMissing),
        (409, "SkuNotAvailable", "none", CapacityMissing),
        (409, "AllocationFailed", "none", CapacityMissing),
        (409, "ZonalAllocationFailed", "none", CapacityMissing),
        (409, "OverconstrainedZonalAllocationRequest", "none", CapacityMissing),
        (412, "PreconditionFailed", "changed", StaleWrite),
        (429, "TooManyRequests", "slow down", Throttled),
        (500, "InternalServerError", "oops", RetryLater),
        (503, "ServiceUnavailable", "later", RetryLater),
    ],
)
def test_each_answer_becomes_what_the_caller_can_do_about_it(
    status: int, code: str, message: str, kind: type[OutsideError]
) -> None:
    error = from_answer(status, code, message, doing="trying")
    assert (type(error), error.code, error.status) == (kind, code, status)
    assert str(error) == f"trying: {code}: {message}"


def test_a_missing_right_is_named() -> None:
    message = (
        "The client 'x' does not have authorization to perform action"
        " 'Microsoft.Compute/virtualMachineScaleSets/write' over scope '/subscriptions/s' or the scope is invalid."
    )
    error = from_answer(403, "AuthorizationFailed", message, doing="growing gpu")
    assert str(error) == (
        "growing gpu: the identity lacks Microsoft.Compute/virtualMachineScaleSets/write on /subscriptions/s: " + REMEDY
    )


@pytest.mark.parametrize("status", [400, 401, 403, 409])
def test_a_right_that_lacks_on_what_the_request_refers_to_is_named(status: int) -> None:
    message = (
        "The client 'x' with object id 'y' has permission to perform action 'Microsoft.Compute/virtualMachines/write'"
        " on scope '/subscriptions/s/vm'; however, it does not have permission to perform action(s)"
        " 'Microsoft.Network/virtualNetworks/subnets/join/action' on the linked scope(s) '/subscriptions/s/subnets/a'."
    )
    error = from_answer(status, "LinkedAuthorizationFailed", message, doing="creating VM a")
    assert type(error) is Refused
    assert str(error) == (
        "creating VM a: the identity lacks Microsoft.Network/virtualNetworks/subnets/join/action on"
        " /subscriptions/s/subnets/a: " + REMEDY
    )


def test_the_numbers_of_a_quota_are_found_below_what_aks_calls_it() -> None:
    told = "exceeding approved standardDSv5Family Cores quota. Current Limit: 8, Current Usage: 8"
    inner = {"code": "OperationNotAllowed", "message": told}
    wrapped = {"code": "QuotaExceeded", "message": "Quota was exceeded.", "details": [inner]}
    assert error_of({"error": wrapped}) == ("OperationNotAllowed", told)
    deeper = {"code": "ScaleFailed", "message": "no", "details": [{"code": "x", "details": [wrapped]}]}
    assert error_of({"error": deeper}) == ("OperationNotAllowed", told)


def test_an_error_without_anything_better_inside_is_told_as_it_is() -> None:
    body = {"error": {"code": "InvalidParameter", "message": "size", "details": [{"code": "x", "message": "y"}]}}
    assert error_of(body) == ("InvalidParameter", "size")


def test_missing_capacity_is_found_inside_the_details() -> None:
    body = {
        "error": {"code": "DeploymentFailed", "message": "x", "details": [{"code": "AllocationFailed", "message": "y"}]}
    }
    assert error_of(body) == ("AllocationFailed", "y")


@pytest.mark.parametrize("body", [None, [], {"error": "text"}, {}])
def test_a_body_that_is_no_arm_error_has_no_code(body: object) -> None:
    assert error_of(body) == ("", "")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"x-ms-retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Thu, 1 Jan"}, None),
        ({}, None),
    ],
)
def test_the_pause_is_read_in_seconds(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ServiceRequestError("no such host\nmore"), Unreachable),
        (ServiceResponseError("reset"), RetryLater),
        (ClientAuthenticationError("no token"), Refused),
    ],
)
def test_failures_without_an_answer_have_their_kind_too(
    raised: ServiceRequestError | ServiceResponseError | ClientAuthenticationError, kind: type[OutsideError]
) -> None:
    error = translate(raised, "asking")
    assert type(error) is kind
    assert "\n" not in str(error)


def test_an_endpoint_that_does_not_resolve_is_unreachable() -> None:
    transport = HandlerTransport(lambda _host: None, VirtualTimeline())
    compute = make_compute(SCOPE, NoCredential(), transport=transport, authentication_policy=NoAuthentication())
    with pytest.raises(Unreachable, match=r"management\.azure\.com"):
        compute.scale_set(pool("gpu"))


def test_the_sdks_error_is_chained(quick: World) -> None:
    quick.pools(pool("gpu"))
    quick.arm.faults.add(Fault("scale_set.get", code="InternalServerError"))
    with pytest.raises(RetryLater) as caught:
        quick.compute.scale_set(pool("gpu"))
    assert caught.value.__cause__ is not None
    assert caught.value.code == "InternalServerError"


def test_an_operation_that_azure_has_forgotten_is_not_found(quick: World) -> None:
    (gpu,) = quick.pools(pool("gpu"))
    token = quick.compute.begin_capacity(gpu, 1, "")
    quick.arm.cloud.operations.by_id.clear()
    with pytest.raises(NotFound):
        quick.compute.poll(token)


def test_a_throttled_poll_keeps_azures_pause(quick: World) -> None:
    (gpu,) = quick.pools(pool("gpu"))
    token = quick.compute.begin_capacity(gpu, 1, "")
    quick.arm.faults.add(Fault("operation.get", code="TooManyRequests", retry_after=9))
    with pytest.raises(Throttled) as caught:
        quick.compute.poll(token)
    assert caught.value.retry_after == 9


@pytest.mark.parametrize("token", ["", "nonsense", "bm90IG91cnM="])
def test_a_token_that_is_not_ours_is_rejected(quick: World, token: str) -> None:
    with pytest.raises(Rejected, match="operation token"):
        quick.compute.poll(token)


def test_a_pool_without_a_scale_set_cannot_be_resized(quick: World) -> None:
    with pytest.raises(Rejected, match="pool solo: kind vm has no scale set"):
        quick.compute.begin_capacity(pool("solo", kind=PoolKind.VM), 1, "")
