"""The real kubectl against the stand-in, over HTTP."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest

from local.http_server import serve
from local.kube.controllers.timing import Timing
from local.kube.kubeconfig import write_kubeconfig
from local.kube.stand_in import KubernetesStandIn
from local.timeline import WallTimeline

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
Kubectl = Callable[..., subprocess.CompletedProcess[str]]

MANIFEST = """
apiVersion: v1
kind: Node
metadata:
  name: n1
  annotations: {kwok.x-k8s.io/node: fake}
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: nginx, resources: {requests: {cpu: 100m}}}
"""


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("kubectl")
    timeline = WallTimeline()
    prompt = Timing(node_ready=(0.0, 0.0), pod_start=(0.0, 0.0), pod_stop=(0.0, 0.0))
    stand_in = KubernetesStandIn(timeline, token="t", timing=prompt)
    with serve(stand_in, lock=timeline.lock) as server:
        config = write_kubeconfig(folder / "config", server.url, "t")
        base = [str(KUBECTL), f"--kubeconfig={config}", f"--cache-dir={folder / 'cache'}", "--request-timeout=10s"]

        def run(*args: str, given: str = "", ok: bool = True) -> subprocess.CompletedProcess[str]:
            done = subprocess.run([*base, *args], input=given, capture_output=True, text=True, timeout=30, check=False)
            assert (done.returncode == 0) is ok, done.stderr
            return done

        yield run
    timeline.close()


@pytest.fixture
def applied(kubectl: Kubectl) -> Iterator[Kubectl]:
    kubectl("apply", "-f", "-", given=MANIFEST)
    kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=10s")
    yield kubectl
    kubectl("delete", "-f", "-", "--wait=false", given=MANIFEST)


def test_apply_creates_then_finds_nothing_to_change_then_changes(applied: Kubectl) -> None:
    assert "deployment.apps/web unchanged" in applied("apply", "-f", "-", given=MANIFEST).stdout
    changed = MANIFEST.replace("replicas: 2", "replicas: 1")
    assert "deployment.apps/web configured" in applied("apply", "-f", "-", given=changed).stdout
    assert json.loads(applied("get", "deployment", "web", "-o", "json").stdout)["spec"]["replicas"] == 1


def test_apply_is_validated_by_the_server(applied: Kubectl) -> None:
    wrong = MANIFEST.replace("image: nginx", "imag: nginx")
    done = applied("apply", "-f", "-", given=wrong, ok=False)
    assert 'unknown field "spec.template.spec.containers[0].imag"' in done.stderr
    wrong = MANIFEST.replace("replicas: 2", "replicas: two")
    assert "cannot unmarshal string" in applied("apply", "-f", "-", given=wrong, ok=False).stderr


def test_a_dump_of_pods_and_nodes_is_complete(applied: Kubectl) -> None:
    items = json.loads(applied("get", "pods,nodes", "-A", "-o", "json").stdout)["items"]
    assert sorted(one["kind"] for one in items) == ["Node", "Pod", "Pod"]


def test_tables_show_what_people_look_for(applied: Kubectl) -> None:
    pods = applied("get", "pods", "-o", "wide").stdout.splitlines()
    assert pods[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]
    assert pods[1].split()[1:3] == ["1/1", "Running"]
    assert pods[1].split()[-1] == "n1"
    assert "web    2/2" in applied("get", "deployments").stdout
    assert applied("get", "nodes", "--no-headers").stdout.split()[1] == "Ready"


def test_describe_shows_events_and_the_pods_of_a_node(applied: Kubectl) -> None:
    described = applied("describe", "pods").stdout
    assert "Successfully assigned default/web-" in described
    assert "default" in applied("describe", "node", "n1").stdout.partition("Non-terminated Pods:")[2]


def test_scale_and_rollout_go_their_way(applied: Kubectl) -> None:
    assert "scaled" in applied("scale", "deployment/web", "--replicas=3").stdout
    assert "successfully rolled out" in applied("rollout", "status", "deployment/web", "--timeout=10s").stdout


def test_drain_evicts_and_cordon_shows(applied: Kubectl) -> None:
    assert "node/n1 drained" in applied("drain", "n1", "--timeout=10s").stdout
    assert "SchedulingDisabled" in applied("get", "nodes").stdout
    applied("uncordon", "n1")
    assert "SchedulingDisabled" not in applied("get", "nodes").stdout


def test_delete_waits_until_it_is_gone(applied: Kubectl) -> None:
    applied("delete", "pods", "--all")
    assert "not found" in applied("get", "pod", "nobody", ok=False).stderr
