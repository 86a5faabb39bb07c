"""Ways to an API server: public, by authorised ranges, private. Which of them fails is seen in how it fails.

The words are those of urllib3 and of OpenSSL, as the Kubernetes client hands them on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from local.doctor.findings import Cause, Check, Finding

Json = dict[str, Any]


class Way(StrEnum):
    """How the API server is meant to be reached; UNKNOWN where nobody says."""

    PUBLIC = "public"
    RANGES = "authorised ranges"
    PRIVATE = "private"
    UNKNOWN = "unknown"


class Failure(StrEnum):
    """How a connection failed."""

    NAME = "name"
    SILENT = "silent"
    CLOSED = "closed"
    TLS = "tls"
    STRANGER = "stranger"
    OTHER = "other"


_SIGNS = (
    (Failure.TLS, re.compile(r"certificate|ssl|tls", re.IGNORECASE)),
    (Failure.NAME, re.compile(r"resolve|getaddrinfo|name or service|nodename|name resolution", re.IGNORECASE)),
    (Failure.SILENT, re.compile(r"timed? ?out|no route|unreachable", re.IGNORECASE)),
    (Failure.CLOSED, re.compile(r"refused|reset|aborted|closed connection", re.IGNORECASE)),
    (Failure.STRANGER, re.compile(r"is no API server", re.IGNORECASE)),
)
_ADDRESS = "the NAT gateway's address"
_REMEDIES: Mapping[tuple[Failure, Way], str] = {
    (Failure.SILENT, Way.RANGES): (
        f"put {_ADDRESS} into the cluster's authorised ranges (az aks update --api-server-authorized-ip-ranges), and see"
        " that the app goes out through it: subnet_id of the stage base, with a NAT gateway on that subnet"
    ),
    (Failure.SILENT, Way.PRIVATE): (
        "give the app a subnet in the cluster's network or in one peered with it (subnet_id of the stage base), and let"
        " its security groups pass port 443"
    ),
    (Failure.SILENT, Way.PUBLIC): "see that no firewall stands between: the API server is public, and does not answer",
    (Failure.NAME, Way.PRIVATE): (
        "link the cluster's private DNS zone (privatelink.REGION.azmk8s.io) to the network of the app's subnet"
    ),
    (Failure.NAME, Way.RANGES): "check `server` in the app's kubeconfig: a public API server's name resolves anywhere",
    (Failure.NAME, Way.PUBLIC): "check `server` in the app's kubeconfig: a public API server's name resolves anywhere",
}
_ANYHOW: Mapping[Failure, str] = {
    Failure.SILENT: (
        f"public: look for a firewall; authorised ranges: put {_ADDRESS} into them; private: give the app a subnet in the"
        " cluster's network (subnet_id of the stage base)"
    ),
    Failure.NAME: (
        "private: link the cluster's private DNS zone to the network of the app's subnet; else check `server` in the"
        " app's kubeconfig"
    ),
    Failure.CLOSED: "check the port of `server` in the app's kubeconfig, and that the cluster is started",
    Failure.TLS: (
        "take certificate-authority-data from this cluster's own kubeconfig: it is the CA that the API server's"
        " certificate is checked against, and that is never switched off"
    ),
    Failure.STRANGER: "check `server` in the app's kubeconfig: a proxy or another server answers there",
    Failure.OTHER: "see the message, and the log of the Function App",
}
_WITHOUT_TOKEN = (
    "who the app is there was not accepted: on AKS, let the cluster use Entra ID and bind the app's identity; elsewhere,"
    " put a fresh service account token into the Key Vault secret"
)
_SETTING = "put the cluster's kubeconfig into the Key Vault, and its id into clusters.NAME of the stage base"


def way_of(cluster: Json | None, server: str) -> Way:
    """By the AKS cluster's own body (ManagedCluster, apiServerAccessProfile), else by the address in a kubeconfig."""
    if cluster is not None:
        profile = cluster.get("properties", {}).get("apiServerAccessProfile") or {}
        if profile.get("enablePrivateCluster"):
            return Way.PRIVATE
        return Way.RANGES if profile.get("authorizedIPRanges") else Way.PUBLIC
    host = urlsplit(server).hostname or ""
    if ".privatelink." in host:
        return Way.PRIVATE
    try:
        return Way.PRIVATE if ip_address(host).is_private else Way.UNKNOWN
    except ValueError:
        return Way.UNKNOWN


def failure_of(message: str) -> Failure:
    """How a connection failed, by what is said of it."""
    return next((failure for failure, sign in _SIGNS if sign.search(message)), Failure.OTHER)


def judge(cluster: str, said: Json, way: Way) -> Finding:
    """`said` is the app's own word on its API server: {"ok": true}, or how it failed."""
    check = Check("api-server", cluster)
    by = f" ({way})" if way is not Way.UNKNOWN else ""
    if said.get("ok"):
        return check.ok(f"answers the app{by}")
    reason, kind = str(said.get("reason", "")), said.get("kind")
    if kind == "refused":
        return check.failed(reason, _WITHOUT_TOKEN, Cause.RIGHTS)
    if kind == "rejected":
        return check.failed(reason, _SETTING)
    failure = failure_of(reason)
    remedy = _REMEDIES.get((failure, way)) or _ANYHOW[failure]
    return check.failed(f"does not answer the app{by}: {reason}", remedy, Cause.UNREACHABLE)
