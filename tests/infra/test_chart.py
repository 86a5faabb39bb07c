"""The chart as Helm renders it, and what a real API server makes of it."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
import yaml

from exporter.settings import read_settings
from shared.names import POOL_LABEL
from tests.e2e.control_plane.available import control_plane_or_skip
from tests.infra import tools
from tests.infra.readers import INFRA, terraform_blocks

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
    "nodeAgent": {"clientId": "00000000-0000-0000-0000-00000000000c"},
}
AGENTS_OWN = "sluice-node-agent"
ON_THE_HOST = {**VALUES, "nodeAgent": {**VALUES["nodeAgent"], "hostNetwork": True, "namespace": AGENTS_OWN}}
COLLECTIONS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Namespace": "/api/v1/namespaces",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
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


def only(kind: str, rendered: list[dict], name: str = "") -> dict:
    (found,) = (each for each in rendered if each["kind"] == kind and name in each["metadata"]["name"])
    return found


def collection(each: dict) -> str:
    return COLLECTIONS[each["kind"]].format(each["metadata"].get("namespace"))


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """An API server with what pods are not taken without: their namespaces and service accounts."""
    with control_plane_or_skip(directory=tmp_path_factory.mktemp("chart")) as plane:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
        assert plane.api.post(COLLECTIONS["Namespace"], body).ok
        assert plane.api.post(COLLECTIONS["Namespace"], only("Namespace", render(ON_THE_HOST))).ok
        for name, namespace in (("exporter", NAMESPACE), ("node-agent", NAMESPACE), ("node-agent", AGENTS_OWN)):
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": f"sluice-{name}"}}
            assert plane.api.post(COLLECTIONS["ServiceAccount"].format(namespace), account).ok
        yield plane.api


def ask(api, method: str, path: str, body: dict):
    return getattr(api, method)(f"{path}?dryRun=All&fieldValidation=Strict", body)


def pod_of(rendered: list[dict], kind: str) -> dict:
    template = only(kind, rendered)["spec"]["template"]
    metadata = {**template["metadata"], "name": "probe"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


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
        ON_THE_HOST,
        {**VALUES, "functions": {"serviceAccount": {"create": True}}, "networkPolicy": {"enabled": False}},
    ],
    ids=["defaults", "host network", "service account"],
)
def test_the_api_server_takes_what_is_rendered(api, values) -> None:
    there = {("Namespace", AGENTS_OWN), ("ServiceAccount", "sluice-exporter"), ("ServiceAccount", "sluice-node-agent")}
    for each in render(values):
        if (each["kind"], each["metadata"]["name"]) not in there:
            reply = ask(api, "post", collection(each), each)
            assert reply.ok, f"{each['kind']} {each['metadata']['name']}: {reply.body}"


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_pods_pass_the_restricted_level(api, kind) -> None:
    reply = ask(api, "post", f"/api/v1/namespaces/{NAMESPACE}/pods", pod_of(render(), kind))
    assert reply.ok, reply.body


def test_an_agent_on_the_host_network_is_taken_in_its_own_namespace_alone(api) -> None:
    pod = pod_of(render(ON_THE_HOST), "DaemonSet")
    refused = ask(api, "post", f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
    assert refused.status == 403
    assert "hostNetwork" in refused.body
    taken = ask(api, "post", f"/api/v1/namespaces/{AGENTS_OWN}/pods", pod)
    assert taken.ok, taken.body


def test_the_host_network_needs_a_namespace_to_be_named() -> None:
    values = {**VALUES, "nodeAgent": {**VALUES["nodeAgent"], "hostNetwork": True}}
    done = helm("template", "sluice", str(CHART), "--namespace", NAMESPACE, values=values)
    assert done.returncode != 0
    assert "nodeAgent.hostNetwork: name a namespace of the agent's own in nodeAgent.namespace" in done.stderr


def test_two_exporters_never_share_a_node_and_keep_off_what_sluice_manages() -> None:
    spec = only("Deployment", render())["spec"]
    labels = spec["selector"]["matchLabels"]
    affinity = spec["template"]["spec"]["affinity"]
    (apart,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert spec["replicas"] == 2
    assert apart == {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    assert term["matchExpressions"] == [
        {"key": POOL_LABEL, "operator": "DoesNotExist"},
        {"key": "kubernetes.azure.com/scalesetpriority", "operator": "NotIn", "values": ["spot"]},
    ]


def test_a_disruption_takes_one_exporter_at_a_time() -> None:
    rendered = render()
    budget = only("PodDisruptionBudget", rendered)["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == only("Deployment", rendered)["spec"]["selector"]


def test_agents_run_on_spot_nodes_alone() -> None:
    spec = only("DaemonSet", render())["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"kubernetes.azure.com/scalesetpriority": "spot"}
    everywhere = {**VALUES, "nodeAgent": {"nodeSelector": {"kubernetes.azure.com/scalesetpriority": None}}}
    done = helm("template", "sluice", str(CHART), values=everywhere)
    assert "at '/nodeAgent/nodeSelector'" in done.stderr


@pytest.mark.parametrize("values", [VALUES, ON_THE_HOST], ids=["pod network", "host network"])
def test_an_agent_has_no_right_in_the_cluster_and_no_token_of_it(values) -> None:
    rendered = render(values)
    agent = only("DaemonSet", rendered)["spec"]["template"]["spec"]
    assert agent["serviceAccountName"] == "sluice-node-agent"
    assert agent["automountServiceAccountToken"] is False
    bound = [who["name"] for each in rendered if "Binding" in each["kind"] for who in each["subjects"]]
    assert "sluice-node-agent" not in bound


def test_the_network_lets_each_out_to_what_it_needs() -> None:
    rendered = render()
    agent, exporter = (only("NetworkPolicy", rendered, name)["spec"] for name in ("node-agent", "exporter"))
    metadata_service = {"to": [{"ipBlock": {"cidr": "169.254.169.254/32"}}], "ports": [{"port": 80, "protocol": "TCP"}]}
    assert metadata_service in agent["egress"]
    assert metadata_service not in exporter["egress"]
    assert ports(agent) == {53, 443, 80}
    assert ports(exporter) == {53, 443, 6443}
    assert agent["ingress"] == exporter["ingress"] == []


def ports(policy: dict) -> set[int]:
    return {port["port"] for rule in policy["egress"] for port in rule["ports"]}


@pytest.mark.parametrize(("kind", "role"), [("Deployment", "watch"), ("DaemonSet", "node-agent")])
def test_the_process_is_told_what_it_needs_and_nothing_that_it_does_not_know(kind: str, role: str) -> None:
    (container,) = only(kind, render())["spec"]["template"]["spec"]["containers"]
    told = {each["name"]: each.get("value", "from the pod") for each in container["env"]}
    known = (INFRA.parent / "exporter/settings.py").read_text()
    assert [name for name in told if f'"{name}"' not in known] == []
    settings = read_settings(container["args"], told)
    assert settings.role == role
    assert settings.port == container["ports"][0]["containerPort"]


def test_what_base_puts_out_are_values_of_the_chart() -> None:
    (body,) = (body["value"] for _, name, body in terraform_blocks("base", "output") if name == "exporter_values")
    names = set(re.findall(r"[{,] ?(\w+) = ", str(body)))
    schema = json.loads((CHART / "values.schema.json").read_text())
    described = set(schema["properties"]) | set(schema["properties"]["nodeAgent"]["properties"])
    assert {"cluster", "topicEndpoint", "storageUrl", "clientId", "tenantId", "nodeAgent", "namespace"} <= names
    assert names <= described


def test_every_value_is_described_by_the_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert undescribed(values, schema, schema["definitions"]) == []


def undescribed(values: dict, schema: dict, definitions: dict, path: str = "") -> list[str]:
    schema = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    known = schema.get("properties")
    if known is None:
        return []
    inside = [
        entry
        for name, value in values.items()
        if name in known and isinstance(value, dict)
        for entry in undescribed(value, known[name], definitions, f"{path}/{name}")
    ]
    return [f"{path}/{name}" for name in values if name not in known] + inside
