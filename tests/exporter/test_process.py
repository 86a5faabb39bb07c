"""The process says in a line what keeps it from starting, with the exit code of its kind."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from exporter import main as process
from exporter.settings import NODE_AGENT, SettingsError, read_settings
from shared.adapters.errors import Refused, Unreachable
from tests.exporter.fakes import FakeCluster
from tests.exporter.harness import POOLS

ROOT = Path(__file__).parents[2]
TOPIC = {"SLUICE_TOPIC_ENDPOINT": "https://t.westeurope-1.eventgrid.azure.net/api/events", "SLUICE_TOPIC_KEY": "k3y"}


@pytest.fixture
def pools(tmp_path: Path) -> str:
    path = tmp_path / "pools.yaml"
    path.write_bytes(POOLS)
    return str(path)


def start(capsys: pytest.CaptureFixture[str], *flags: str, **environment: str) -> tuple[int, list[str]]:
    code = process.main(flags, {**TOPIC, **environment})
    lines = capsys.readouterr().err.splitlines()
    return code, [line for line in lines if line.startswith("sluice-exporter: ")]


def test_a_missing_topic_and_pools_file_are_told_together(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = start(capsys, SLUICE_TOPIC_ENDPOINT="")
    assert code == 2
    assert ["--topic" in lines[0], "--pools" in lines[1]] == [True, True]


def test_every_problem_of_a_pools_file_has_its_line(capsys: pytest.CaptureFixture[str], pools: str) -> None:
    Path(pools).write_text("cluster: training\npools: [{name: cpu, max: -1, shape: {cpu: 4}, colour: red}]\n")
    code, lines = start(capsys, "--pools", pools)
    assert code == 2
    assert any("pools[0].max" in line for line in lines)
    assert any("colour" in line for line in lines)


def test_a_missing_pools_file_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, lines = start(capsys, "--pools", str(tmp_path / "none.yaml"))
    assert (code, len(lines)) == (2, 1)
    assert "none.yaml" in lines[0]


def test_a_missing_kubeconfig_is_named(capsys: pytest.CaptureFixture[str], pools: str, tmp_path: Path) -> None:
    code, lines = start(capsys, "--pools", pools, "--kubeconfig", str(tmp_path / "nowhere"))
    assert (code, len(lines)) == (2, 1)
    assert "nowhere" in lines[0]


def test_outside_a_pod_a_kubeconfig_is_asked_for(
    capsys: pytest.CaptureFixture[str], pools: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    code, lines = start(capsys, "--pools", pools)
    assert (code, len(lines)) == (2, 1)
    assert "kubeconfig" in lines[0]


@pytest.mark.parametrize(
    ("error", "expected"),
    [(Unreachable("list /api/v1/pods: no answer from https://gone"), 3), (Refused("list /api/v1/pods: forbidden"), 4)],
)
def test_an_api_server_that_refuses_or_does_not_answer_ends_the_start(
    capsys: pytest.CaptureFixture[str],
    pools: str,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    expected: int,
) -> None:
    cluster = FakeCluster()
    cluster.fail = [error]
    monkeypatch.setattr(process, "_cluster_api", lambda settings: cluster)
    code, lines = start(capsys, "--pools", pools)
    assert (code, len(lines)) == (expected, 1)
    assert str(error) in lines[0]


def test_a_right_on_the_lease_that_is_missing_shows_at_the_start(
    capsys: pytest.CaptureFixture[str], pools: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoLeases(FakeCluster):
        def get(self, path: str) -> dict[str, object]:
            raise Refused(f"get {path}: forbidden")

    monkeypatch.setattr(process, "_cluster_api", lambda settings: NoLeases())
    code, lines = start(capsys, "--pools", pools)
    assert code == 4
    assert "leases/sluice-exporter" in lines[0]


def test_a_key_may_come_from_a_file_and_a_flag_wins_over_the_environment(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("from-file\n")
    settings = read_settings(["--topic-key-file", str(key), "--pools", "a"], {**TOPIC, "SLUICE_POOLS": "b"})
    assert (settings.topic_key, settings.pools) == ("from-file", "a")


@pytest.mark.parametrize(
    ("flags", "environment", "said"),
    [
        (["--topic", "ftp://x/api/events"], {}, "--topic"),
        (["--topic", "https://t.example/"], {}, "/api/events"),
        (["--topic", "http://127.0.0.1:1/api/events"], {"SLUICE_TOPIC_KEY": ""}, "SLUICE_TOPIC_KEY"),
        (["--topic-key-file", "nowhere"], {}, "--topic-key-file nowhere"),
        (["--port", "many"], {}, "--port many"),
        ([NODE_AGENT], {}, "SLUICE_CLUSTER"),
        ([NODE_AGENT], {"SLUICE_CLUSTER": "training"}, "SLUICE_NODE_NAME"),
    ],
)
def test_each_wrong_setting_is_named(flags: list[str], environment: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(flags, {**TOPIC, "SLUICE_POOLS": "pools.yaml", **environment})
    assert said in str(caught.value)


def pins(path: Path) -> dict[str, str]:
    lines = [line.strip() for line in path.read_text().splitlines()]
    found = [re.fullmatch(r"([A-Za-z0-9-]+)==(\S+)", line) for line in lines if line and not line.startswith("#")]
    assert all(found), "every line pins one package"
    return {match[1]: match[2] for match in found if match}


def test_the_image_installs_the_versions_that_are_tested() -> None:
    image, project = pins(ROOT / "exporter/requirements.txt"), pins(ROOT / "requirements.txt")
    assert {name: project.get(name) for name in image} == image


def imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    plain = {alias.name for item in ast.walk(tree) if isinstance(item, ast.Import) for alias in item.names}
    return plain | {item.module or "" for item in ast.walk(tree) if isinstance(item, ast.ImportFrom)}


def test_the_image_installs_all_that_the_exporter_imports() -> None:
    todo, seen, packages = {"exporter.main"}, set(), set()
    while todo:
        module = todo.pop()
        seen.add(module)
        path = ROOT / f"{module.replace('.', '/')}.py"
        for name in imported(path if path.exists() else path.with_suffix("") / "__init__.py"):
            top = name.partition(".")[0]
            if top in {"exporter", "shared"}:
                todo |= {name} - seen
            elif top not in sys.stdlib_module_names:
                packages.add(top)
    carried = {"yaml": "PyYAML", "azure": "azure-storage-blob", "urllib3": "kubernetes"}
    assert {carried.get(name, name) for name in packages} <= pins(ROOT / "exporter/requirements.txt").keys()


def test_the_image_runs_without_root_and_holds_only_what_it_needs() -> None:
    lines = (ROOT / "exporter/Containerfile").read_text().splitlines()
    copied = [line.split()[1] for line in lines if line.startswith("COPY")]
    assert copied == ["exporter/requirements.txt", "shared/", "exporter/"]
    assert "USER 65532" in lines
    assert lines.index("USER 65532") < next(n for n, line in enumerate(lines) if line.startswith("ENTRYPOINT"))
