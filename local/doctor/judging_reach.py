"""Ways to an API server: public, by authorised ranges, private. Each fails in its own manner, and has a remedy."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from ipaddress import ip_address, ip_network
from typing import Any

from local.doctor.findings import Cause, Check, Finding
from shared.adapters.app_access import NO_TOKEN
from shared.adapters.kubernetes import NO_NAME, SILENT
from shared.adapters.reaching import REFUSED, REMEDIES, UNUSABLE

Json = dict[str, Any]


class Way(StrEnum):
    """How an API server is meant to be reached; UNKNOWN where nobody says."""

    PUBLIC = "public"
    RANGES = "authorised ranges"
    PRIVATE = "private"
    UNKNOWN = "unknown"


_BY_WAY: Mapping[tuple[str, Way], str] = {
    (SILENT, Way.RANGES): (
        "put the app's fixed address (output outbound_address) into the authorised ranges: az aks update"
        " --api-server-authorized-ip-ranges; the app needs a subnet with a NAT gateway for it"
    ),
    (SILENT, Way.PRIVATE): (
        "give the app a subnet in the cluster's network, or in one peered with it, and let its network security groups"
        " pass port 443"
    ),
    (SILENT, Way.PUBLIC): "look for a firewall in between: the API server is public, and does not answer the app",
    (NO_NAME, Way.PRIVATE): (
        "link the cluster's private DNS zone (privatelink.REGION.azmk8s.io) to the network of the app's subnet"
    ),
    (NO_NAME, Way.RANGES): "check `server` in the app's kubeconfig: a public API server's name resolves anywhere",
    (NO_NAME, Way.PUBLIC): "check `server` in the app's kubeconfig: a public API server's name resolves anywhere",
}
_CAUSES: Mapping[str, Cause] = {REFUSED: Cause.RIGHTS, NO_TOKEN: Cause.RIGHTS, UNUSABLE: Cause.SETTING}


def way_of(cluster: Json | None) -> Way:
    """By the AKS cluster's own body: ManagedCluster, apiServerAccessProfile."""
    if cluster is None:
        return Way.UNKNOWN
    profile = cluster.get("properties", {}).get("apiServerAccessProfile") or {}
    if profile.get("enablePrivateCluster"):
        return Way.PRIVATE
    return Way.RANGES if profile.get("authorizedIPRanges") else Way.PUBLIC


def judge_ranges(cluster: str, body: Json | None, outbound: str) -> Finding | None:
    """Whether the app's fixed address is among an AKS cluster's authorised ranges; None where there is nothing to
    compare."""
    ranges = ((body or {}).get("properties", {}).get("apiServerAccessProfile") or {}).get("authorizedIPRanges") or ()
    if not ranges or not outbound:
        return None
    check = Check("authorised-ranges", cluster)
    if any(ip_address(outbound) in ip_network(each, strict=False) for each in ranges):
        return check.ok(f"the app's address {outbound} is among them")
    remedy = f"az aks update --api-server-authorized-ip-ranges {','.join([*ranges, f'{outbound}/32'])}"
    return check.failed(f"the app's address {outbound} is not among {', '.join(ranges)}", remedy, Cause.UNREACHABLE)


def judge(cluster: str, said: Json, way: Way) -> Finding:
    """`said`: {"obstacle", "reason"}, the app's own word on its API server; `obstacle` "" when it answered."""
    check, obstacle = Check("api-server", cluster), said["obstacle"]
    by = "" if way is Way.UNKNOWN else f" ({way})"
    if not obstacle:
        return check.ok(f"answers the app{by}")
    remedy = _BY_WAY.get((obstacle, way)) or REMEDIES[obstacle]
    cause = _CAUSES.get(obstacle, Cause.UNREACHABLE)
    return check.failed(f"does not answer the app{by}: {said['reason']}", remedy, cause)
