"""Who Sluice is in a cluster: two service accounts with no right more than they need, so that RBAC has its say."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shared.adapters.errors import StaleWrite
from shared.adapters.protocols import ClusterApi
from tests.e2e.control_plane import ControlPlane
from tests.e2e.control_plane.access import kubeconfig

Json = dict[str, Any]

NAMESPACE = "sluice"
GROUP = f"system:serviceaccounts:{NAMESPACE}"
FUNCTIONS, EXPORTER = "functions", "exporter"
TOKEN_SECONDS = 7200
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


def rule(group: str, resources: Iterable[str], *verbs: str) -> Json:
    """One line of a role."""
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


RIGHTS = {
    FUNCTIONS: [
        rule("", ["pods"], "get", "list"),
        rule("", ["pods/eviction"], "create"),
        rule("", ["pods/status"], "patch"),
        rule("", ["nodes"], "get", "list", "patch", "delete"),
        rule("apps", ["daemonsets"], "list"),
        rule("", ["persistentvolumeclaims", "persistentvolumes"], "list"),
        rule("storage.k8s.io", ["storageclasses", "csinodes", "csidrivers", "volumeattachments"], "list"),
        rule("scheduling.k8s.io", ["podgroups"], "list"),
    ],
    EXPORTER: [
        rule("", ["pods", "nodes"], "list", "watch"),
        rule("apps", ["daemonsets"], "list", "watch"),
        rule("", ["persistentvolumeclaims", "persistentvolumes"], "list", "watch"),
        rule("storage.k8s.io", ["storageclasses", "csinodes", "csidrivers", "volumeattachments"], "list", "watch"),
        rule("scheduling.k8s.io", ["podgroups"], "list", "watch"),
    ],
}
LEASES = [rule("coordination.k8s.io", ["leases"], "get", "create", "update")]


def user_of(account: str) -> str:
    """The name by which the API server's audit log knows an account."""
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def token_of(api: ClusterApi, account: str) -> str:
    """Make the account with its rights, unless it is there, and a fresh token for it."""
    _make(api, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    _make(api, accounts, {"metadata": {"name": account}})
    _grant(api, f"{_RBAC}/clusterroles", f"{_RBAC}/clusterrolebindings", "ClusterRole", account, RIGHTS[account])
    if account == EXPORTER:
        inside = f"{_RBAC}/namespaces/{NAMESPACE}"
        _grant(api, f"{inside}/roles", f"{inside}/rolebindings", "Role", account, LEASES)
    request = {"spec": {"expirationSeconds": TOKEN_SECONDS}}
    token: str = api.create(f"{accounts}/{account}/token", request)["status"]["token"]
    return token


def write_kubeconfig(plane: ControlPlane, token: str, path: Path) -> Path:
    """A kubeconfig for whoever has the token."""
    path.touch(mode=0o600)
    path.write_text(json.dumps(kubeconfig(plane.url, token, plane.ca)))
    return path


def _grant(api: ClusterApi, roles: str, bindings: str, kind: str, account: str, rules: list[Json]) -> None:
    name = f"sluice-{account}"
    _make(api, roles, {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    _make(api, bindings, {"metadata": {"name": name}, "subjects": [subject], "roleRef": role})


def _make(api: ClusterApi, path: str, body: Json) -> None:
    try:
        api.create(path, body)
    except StaleWrite:
        return  # made for an earlier test
