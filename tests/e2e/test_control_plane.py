"""The control plane is real: what Sluice builds on is seen from the programs themselves."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.e2e.control_plane import Api, Reply
from tests.e2e.control_plane.available import control_plane_or_skip

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"

WAIT_S = 30.0


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One control plane for the module; gangs are on, which changes nothing for other pods."""
    folder = tmp_path_factory.mktemp("control-plane")
    with control_plane_or_skip(directory=folder, gangs=True) as cluster:
        yield cluster.api


@pytest.fixture(autouse=True)
def _empty_cluster(api: Api) -> Iterator[None]:
    yield
    for collection in (PODS, BUDGETS, GROUPS, "/api/v1/nodes"):
        api.delete(collection)
        eventually(partial(is_empty, api, collection))


def test_a_pod_that_fits_nowhere_is_said_to_be_unschedulable(api: Api) -> None:
    """The condition that Sluice is woken by."""
    create_pod(api, "lonely")
    scheduled = condition(api, f"{PODS}/lonely", "PodScheduled")
    assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")


def test_a_new_node_gets_ready_and_takes_the_pending_pod(api: Api) -> None:
    """What Sluice's machines are made for."""
    create_pod(api, "waiting")
    condition(api, f"{PODS}/waiting", "PodScheduled")
    create_node(api, "rescue")
    eventually(lambda: running_on(api, "waiting") == "rescue")
    assert condition(api, "/api/v1/nodes/rescue", "Ready")["status"] == "True"


def test_a_node_that_nobody_plays_never_gets_ready(api: Api) -> None:
    """How a machine that hangs while joining is told: leave the annotation out."""
    create_node(api, "mute", annotations={})
    create_node(api, "alive")
    condition(api, "/api/v1/nodes/alive", "Ready")
    assert not conditions(api.get("/api/v1/nodes/mute").json()).get("Ready")


def test_eviction_against_a_budget_is_answered_429(api: Api) -> None:
    """Draining must take this answer as "not now"."""
    create_node(api, "full")
    create_pod(api, "precious", labels={"app": "precious"})
    eventually(lambda: running_on(api, "precious") == "full")
    forbid_disruption(api, "precious")
    refusal = evict(api, "precious")
    assert refusal.status == 429
    assert "violate the pod's disruption budget" in refusal.json()["message"]


def test_an_evicted_pod_is_gone_at_once(api: Api) -> None:
    """The played kubelet ends pods, so that a drain can be followed to its end."""
    create_node(api, "draining")
    create_pod(api, "leaving")
    eventually(lambda: running_on(api, "leaving") == "draining")
    assert evict(api, "leaving").ok
    eventually(lambda: api.get(f"{PODS}/leaving").status == 404)


def test_a_gang_runs_only_when_all_of_it_fits(api: Api) -> None:
    """Native gang scheduling holds the first pods back until the last has a place."""
    create_gang(api, "trio", size=3)
    create_node(api, "one")
    for member in range(3):
        scheduled = condition(api, f"{PODS}/trio-{member}", "PodScheduled")
        assert scheduled["reason"] == "Unschedulable"
    create_node(api, "two")
    create_node(api, "three")
    eventually(lambda: all(running_on(api, f"trio-{member}") for member in range(3)))


def create_pod(api: Api, name: str, *, labels: dict[str, str] | None = None, **spec: object) -> None:
    """Ask for a pod of 3 CPUs, so that one fits a node and two do not."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    body = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [container], **spec},
    }
    expect(api.post(PODS, body))


def create_node(api: Api, name: str, *, annotations: dict[str, str] | None = None) -> None:
    """Add a node of 4 CPUs, played by kwok unless other annotations are given."""
    size = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    played = {"kwok.x-k8s.io/node": "fake"}
    body = {
        "metadata": {"name": name, "annotations": played if annotations is None else annotations},
        "status": {"capacity": size, "allocatable": size},
    }
    expect(api.post("/api/v1/nodes", body))


def create_gang(api: Api, name: str, *, size: int) -> None:
    """Create a group and as many pods as it needs."""
    policy = {"gang": {"minCount": size}}
    expect(api.post(GROUPS, {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}))
    for member in range(size):
        create_pod(api, f"{name}-{member}", schedulingGroup={"podGroupName": name})


def forbid_disruption(api: Api, app: str) -> None:
    """Budget no disruption at all, and wait until the controller has counted the pods."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    expect(api.post(BUDGETS, {"metadata": {"name": app}, "spec": spec}))
    budget = f"{BUDGETS}/{app}"
    eventually(lambda: api.get(budget).json().get("status", {}).get("currentHealthy") == 1)


def evict(api: Api, pod: str) -> Reply:
    """Use the Eviction API, as a drain does."""
    return api.post(f"{PODS}/{pod}/eviction", {"metadata": {"name": pod}})


def running_on(api: Api, pod: str) -> str | None:
    """The node that runs the pod, or None while none does."""
    body = api.get(f"{PODS}/{pod}").json()
    node: str | None = body["spec"].get("nodeName")
    return node if body["status"].get("phase") == "Running" else None


def condition(api: Api, path: str, kind: str) -> dict[str, Any]:
    """Wait until the object at `path` states the condition."""
    eventually(lambda: kind in conditions(api.get(path).json()))
    return conditions(api.get(path).json())[kind]


def conditions(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The conditions of an object by type."""
    return {each["type"]: each for each in body.get("status", {}).get("conditions", [])}


def is_empty(api: Api, collection: str) -> bool:
    """Whether a collection holds nothing."""
    return not api.get(collection).json()["items"]


def expect(reply: Reply) -> None:
    """Fail with the server's own words."""
    assert reply.ok, reply.body


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for the cluster to come to a state."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, f"not so after {WAIT_S:g} s"
        time.sleep(0.05)
