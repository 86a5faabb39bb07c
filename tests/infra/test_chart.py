"""The chart as Helm renders it, and what a real API server makes of it."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from tests.e2e.control_plane.available import control_plane_or_skip
from tests.infra import tools
from tests.infra.readers import INFRA

pytestmark = [pytest.mark.infra, pytest.mark.timeout(300)]

CHART = INFRA / "helm" / "sluice-exporter"
NAMESPACE = "sluice"
VALUES = {
    "cluster": "training",
    "topicEndpoint": "https://t.westeurope-1.eventgrid.azure.net/api/events",
    "storageUrl": "https://s.blob.core.windows.net",
    "clientId": "00000000-0000-0000-0000-00000000000a",
    "tenantId": "00000000-0000-0000-0000-000000000002",
    "image": {"repository": "registry.example.org/sluice-exporter"},
    "functions": {"entraObjectId": "00000000-0000-0000-0000-00000000000b"},
}
COLLECTIONS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "DaemonSet": f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "NetworkPolicy": f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies",
    "PodDisruptionBudget": f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
}


def helm(*arguments: str, values=VALUES) -> subprocess.CompletedProcess[str]:
    if not tools.HELM.path.exists():
        pytest.fail("helm not built: run `python -m tests.infra.tools`")
    text = yaml.safe_dump(values)
    command = [str(tools.HELM.path), *arguments, "--kube-version", "1.36.0", "-f", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def render(values=VALUES) -> list[dict]:
    done = helm("template", "sluice", str(CHART), "--namespace", NAMESPACE, values=values)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    with control_plane_or_skip(directory=tmp_path_factory.mktemp("chart")) as plane:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
        assert plane.api.post("/api/v1/namespaces", body).ok
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sluice-exporter"}}
        assert plane.api.post(COLLECTIONS["ServiceAccount"], account).ok
        yield plane.api


def test_helm_finds_nothing_to_complain_of() -> None:
    done = helm("lint", str(CHART), "--strict")
    assert done.returncode == 0, done.stdout


def test_missing_values_are_all_named_at_once() -> None:
    done = helm("template", "sluice", str(CHART), values={})
    assert done.returncode != 0
    for name in ("cluster", "topicEndpoint", "storageUrl", "clientId", "tenantId", "image/repository"):
        assert f"at '/{name}'" in done.stderr


@pytest.mark.parametrize(
    "values",
    [
        VALUES,
        {**VALUES, "nodeAgent": {"hostNetwork": True}},
        {**VALUES, "functions": {"serviceAccount": {"create": True}}, "networkPolicy": {"enabled": False}},
    ],
    ids=["defaults", "host network", "service account"],
)
def test_the_api_server_takes_what_is_rendered(api, values) -> None:
    for each in render(values):
        if each["kind"] == "ServiceAccount" and each["metadata"]["name"] == "sluice-exporter":
            continue  # there already, since pods are not taken without it
        reply = api.post(f"{COLLECTIONS[each['kind']]}?dryRun=All&fieldValidation=Strict", each)
        assert reply.ok, f"{each['kind']} {each['metadata']['name']}: {reply.body}"


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_pods_pass_the_restricted_level(api, kind) -> None:
    (template,) = (each["spec"]["template"] for each in render() if each["kind"] == kind)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": "probe"},
        "spec": template["spec"],
    }
    reply = api.post(f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All&fieldValidation=Strict", pod)
    assert reply.ok, reply.body


def test_an_agent_on_the_host_network_does_not(api) -> None:
    rendered = render({**VALUES, "nodeAgent": {"hostNetwork": True}})
    (template,) = (each["spec"]["template"] for each in rendered if each["kind"] == "DaemonSet")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": template["spec"]}
    reply = api.post(f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All", pod)
    assert reply.status == 403
    assert "hostNetwork" in reply.body
