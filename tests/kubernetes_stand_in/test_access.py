"""How the adapter finds its server, and what it says when it does not."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes.client import CoreV1Api

from local.http_server import Server, serve
from local.kube.kubeconfig import write_kubeconfig
from local.kube.rest_transport import make_client
from local.kube.stand_in import KubernetesStandIn
from local.timeline import WallTimeline
from shared.adapters.errors import Refused, Rejected, Unreachable
from shared.adapters.kubernetes import KubernetesClusterApi
from tests.kubernetes_contract.targets import CONFIG_MAPS, PODS, pod
from tests.kubernetes_stand_in.world import World

TOKEN = "let-me-in"


@pytest.fixture
def server() -> Iterator[Server]:
    timeline = WallTimeline()
    with serve(KubernetesStandIn(timeline, token=TOKEN), lock=timeline.lock) as running:
        yield running
    timeline.close()


def _kubeconfig(**changes: object) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
    }
    return yaml.safe_dump(document | changes)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("/nowhere/config", "kubeconfig /nowhere/config: there is no such file"),
        ("a: b: c\n", "the kubeconfig: is not YAML"),
        ("- list\n", "the kubeconfig: holds no configuration"),
        (
            _kubeconfig(**{"current-context": None}),
            "has no current-context; set one with kubectl config use-context, of: one",
        ),
        (_kubeconfig(**{"current-context": "two"}), "has no context 'two'; it has: one"),
        (_kubeconfig(clusters=[]), "context 'one' cannot be used"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why_in_one_line(source: str, message: str) -> None:
    with pytest.raises(Rejected, match=message) as raised:
        KubernetesClusterApi.from_kubeconfig(source)
    assert "\n" not in str(raised.value)


def test_a_named_context_wins_over_the_current_one() -> None:
    with pytest.raises(Rejected, match="has no context 'three'"):
        KubernetesClusterApi.from_kubeconfig(_kubeconfig(), "three")


def test_outside_of_a_pod_there_is_no_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(Rejected, match="not inside a pod"):
        KubernetesClusterApi.in_cluster()


def test_a_server_that_is_not_there_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        server = [{"name": "c", "cluster": {"server": url}}]
        api = KubernetesClusterApi.from_kubeconfig(_kubeconfig(clusters=server))
        with pytest.raises(Unreachable, match=f"create {CONFIG_MAPS}: no answer from {url}"):
            api.create(CONFIG_MAPS, {"metadata": {"name": "c"}})
        api.close()


def test_the_adapter_works_over_http_with_a_written_kubeconfig(server: Server, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "kubeconfig", server.url, TOKEN)
    api = KubernetesClusterApi.from_kubeconfig(str(path))
    _, version = api.list(PODS)
    made = api.create(PODS, pod("a"))
    watched = next(api.watch(PODS, version, timeout_seconds=5))
    assert watched["object"]["metadata"]["uid"] == made["metadata"]["uid"]
    api.close()
    assert path.stat().st_mode & 0o077 == 0


def test_a_live_watch_hears_what_happens_after_it_began(server: Server, tmp_path: Path) -> None:
    api = KubernetesClusterApi.from_kubeconfig(str(write_kubeconfig(tmp_path / "kubeconfig", server.url, TOKEN)))
    _, version = api.list(CONFIG_MAPS)
    api.create(CONFIG_MAPS, {"metadata": {"name": "first"}})
    watch = api.watch(CONFIG_MAPS, version, timeout_seconds=5)
    assert next(watch)["object"]["metadata"]["name"] == "first"
    api.create(CONFIG_MAPS, {"metadata": {"name": "second"}})
    assert next(watch)["object"]["metadata"]["name"] == "second"
    watch.close()
    api.close()


def test_a_watch_on_the_wall_clock_ends_in_time(server: Server, tmp_path: Path) -> None:
    api = KubernetesClusterApi.from_kubeconfig(str(write_kubeconfig(tmp_path / "kubeconfig", server.url, TOKEN)))
    _, version = api.list(CONFIG_MAPS)
    assert [event["type"] for event in api.watch(CONFIG_MAPS, version, timeout_seconds=1)] == ["BOOKMARK"]
    api.close()


def test_without_a_token_nothing_is_shown_but_health(server: Server) -> None:
    api = KubernetesClusterApi.from_kubeconfig(_kubeconfig(clusters=[{"name": "c", "cluster": {"server": server.url}}]))
    with pytest.raises(Refused):
        api.list(PODS)
    api.close()
    world = World(token=TOKEN)
    assert world.request("GET", "/healthz").status == 200
    assert world.request("GET", "/version").status == 401
    assert world.request("GET", f"/token/{TOKEN}/version").status == 200
    assert world.request("GET", "/version", authorization=f"Bearer {TOKEN}").status == 200


def test_the_typed_client_speaks_to_the_stand_in_as_well() -> None:
    world = World()
    world.pod("a")
    found = CoreV1Api(make_client(world.stand_in)).list_namespaced_pod("default")
    assert [one.metadata.name for one in found.items] == ["a"]
    assert found.items[0].status.conditions[0].reason == "Unschedulable"


def test_the_stand_in_takes_no_scheduling_rule_from_the_core() -> None:
    """Else an error of the core would be an error of the stand-in too, and stay unseen."""
    sources = [path.read_text() for path in Path("local/kube").rglob("*.py") if path.name != "rest_transport.py"]
    assert sources
    assert not [text for text in sources if "from shared" in text or "import shared" in text]
