"""Whether the app agrees to receive events: CloudEvents' validation by OPTIONS, as Event Grid does it.

Source: CloudEvents 1.0, "HTTP 1.1 Web Hooks for Event Delivery", abuse protection.
"""

from __future__ import annotations

from collections.abc import Mapping

from local.doctor.findings import Cause, Check, Finding
from local.doctor.probing_web import ORIGIN

KEY_VARIABLE = "SLUICE_EVENTGRID_KEY"
_PUBLISH = "publish the package (func azure functionapp publish APP), then: sluice doctor --wait-for {function}"
_KEY = (
    f"put the app's system key eventgrid_extension into {KEY_VARIABLE}, or give --installation, so that it is asked of"
    " Azure with your login"
)


def judge(function: str, status: int, headers: Mapping[str, str]) -> Finding:
    """By the app's answer to the validation request."""
    check = Check("handshake", function)
    if status in (401, 403):
        return check.failed(f"the app does not take the key of its Event Grid webhook ({status})", _KEY, Cause.RIGHTS)
    if status == 404:
        return check.failed(f"the app has no function {function} (404)", _PUBLISH.format(function=function))
    allowed = headers.get("webhook-allowed-origin", "")
    if status not in (200, 202, 204) or allowed not in ("*", ORIGIN):
        told = f"the app answered {status} with WebHook-Allowed-Origin {allowed!r}, and agrees to nothing"
        return check.failed(told, "see the log of the Function App; restart it if its host did not come up")
    return check.ok(f"the app agrees to receive events for {function}")


def unanswered(function: str, base: str, why: str) -> Finding:
    """Nothing answers there."""
    remedy = "check the app's address, and that it is started (az functionapp start)"
    return Check("handshake", function).failed(f"{base}: nothing answers ({why})", remedy, Cause.UNREACHABLE)
