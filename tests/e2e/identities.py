"""Who Sluice is in a cluster: two service accounts with the rights that the chart grants them, and no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shared.adapters.errors import StaleWrite
from shared.adapters.protocols import ClusterApi
from tests.e2e.control_plane import ControlPlane
from tests.e2e.control_plane.access import kubeconfig
from tests.rights.chart import EXPORTER, FUNCTIONS, rights

Json = dict[str, Any]

__all__ = ["EXPORTER", "FUNCTIONS"]

NAMESPACE = "sluice"
GROUP = f"system:serviceaccounts:{NAMESPACE}"
TOKEN_SECONDS = 7200
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


def user_of(account: str) -> str:
    """The name by which the API server's audit log knows an account."""
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def token_of(api: ClusterApi, account: str) -> str:
    """Make the account with its rights, unless it is there, and a fresh token for it."""
    _make(api, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    _make(api, accounts, {"metadata": {"name": account}})
    mine = [right for right in rights(NAMESPACE) if right.account == account]
    for namespace in sorted({right.namespace for right in mine}):
        rules = [right.rule() for right in mine if right.namespace == namespace]
        _grant(api, f"{_RBAC}/namespaces/{namespace}" if namespace else _RBAC, account, rules)
    request = {"spec": {"expirationSeconds": TOKEN_SECONDS}}
    token: str = api.create(f"{accounts}/{account}/token", request)["status"]["token"]
    return token


def write_kubeconfig(plane: ControlPlane, token: str, path: Path) -> Path:
    """A kubeconfig for whoever has the token."""
    path.touch(mode=0o600)
    path.write_text(json.dumps(kubeconfig(plane.url, token, plane.ca)))
    return path


def _grant(api: ClusterApi, where: str, account: str, rules: list[Json]) -> None:
    name, kind = f"sluice-{account}", "ClusterRole" if where == _RBAC else "Role"
    _make(api, f"{where}/{kind.lower()}s", {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    body = {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}
    _make(api, f"{where}/{kind.lower()}bindings", body)


def _make(api: ClusterApi, path: str, body: Json) -> None:
    try:
        api.create(path, body)
    except StaleWrite:
        return  # made for an earlier test
