"""The package as Azure has it: unpacked into an empty folder, with nothing installed but its own requirements."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.function_index import index_of
from local.system.demonstration import job
from local.system.embedded import Embedded, Installation
from tests.package.archive import ROOT, build
from tests.package.installation import interpreter

pytestmark = pytest.mark.package
IMPORT_SECONDS = 1.0
FIRST_NODE_CPU_SECONDS = 2.0
POOLS = """
cluster: packed
mode: act
azure: {subscription: 00000000-0000-0000-0000-000000000001, resource_group: packed, location: westeurope}
pools: [{name: only, kind: vmss, resource: only, sku: Standard_D4s_v5, price: 0.2, max: 3}]
"""
INDEX = """
import json, sys, time
begun = time.process_time()
import function_app
spent = time.process_time() - begun
names = sorted(function.get_function_name() for function in function_app.app.get_functions())
print(json.dumps({"import_cpu_s": spent, "functions": names, "modules": sorted(sys.modules)}))
"""


@pytest.fixture(scope="session")
def python() -> str:
    return str(interpreter())


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    build(folder / "sluice.zip")
    with zipfile.ZipFile(folder / "sluice.zip") as archive:
        archive.extractall(folder / "app")
    return folder / "app"


def index(python: str, unpacked: Path) -> dict:
    answer = subprocess.run(
        [python, "-B", "-c", INDEX], cwd=unpacked, check=True, capture_output=True, text=True, env={"PATH": "/usr/bin"}
    )
    return json.loads(answer.stdout)


def test_all_functions_are_indexed_with_the_requirements_alone(python: str, unpacked: Path):
    import function_app  # noqa: PLC0415

    there = index(python, unpacked)
    assert there["functions"] == sorted(index_of(function_app.app).names())


def test_the_app_is_imported_within_its_bar_and_without_what_it_does_not_need_yet(python: str, unpacked: Path):
    index(python, unpacked)  # byte code is cached by the platform, too
    seconds = min(index(python, unpacked)["import_cpu_s"] for _ in range(3))
    sys.stdout.write(f"import of function_app: {seconds:.2f} s of CPU")
    assert seconds <= IMPORT_SECONDS
    assert {"kubernetes", "azure.mgmt.compute", "local"}.isdisjoint(index(python, unpacked)["modules"])


@pytest.fixture
def system(python: str, unpacked: Path, tmp_path: Path) -> Iterator[Embedded]:
    """The embedded system whose Functions host runs the package; the stand-ins' side is the repository's."""
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "local").symlink_to(ROOT / "local")
    pools = tmp_path / "pools.yaml"
    pools.write_text(POOLS)
    out = tmp_path / "out"
    out.mkdir()
    with Embedded(pools, out, installation=Installation(python, (unpacked, beside))) as running:
        yield running


def test_a_pending_pod_becomes_a_node_within_the_bar_of_a_cold_start(system: Embedded):
    system.api.create("/apis/batch/v1/namespaces/default/jobs", job("first", 1, {"cpu": "1"}, 1.0))
    wait_for(lambda: system.control("GET", "/truth")["writes"], "a request for a node")
    spent = cpu_seconds(system.functions.pid)
    sys.stdout.write(f"from the start of the process to the first request for a node: {spent:.2f} s of CPU")
    wait_for(lambda: system.api.list("/api/v1/nodes")[0], "a node")
    assert spent <= FIRST_NODE_CPU_SECONDS


def wait_for(seen, what: str) -> None:
    deadline = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.02)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
