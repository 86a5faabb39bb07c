"""Commands as a shell runs them, in this process: exit code and what they wrote."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter import main as exporter
from local import cli
from local.kube.kubeconfig import write_kubeconfig

TOPIC = {"SLUICE_TOPIC_ENDPOINT": "https://t.westeurope-1.eventgrid.azure.net/api/events", "SLUICE_TOPIC_KEY": "key"}
GOOD = """
cluster: training
mode: act
azure: {subscription: 00000000-0000-0000-0000-000000000001, resource_group: nodes, location: westeurope}
pools: [{name: general, sku: Standard_D4s_v5, shape: {cpu: 4, memory: 16Gi}, price: 0.2, max: 10}]
"""

Command = Callable[..., int]


def sluice(*words: str) -> int:
    return cli.main(words)


def sluice_exporter(*words: str) -> int:
    return exporter.main(words, TOPIC)


def refusals(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What stood on standard error, without what the exporter logs at info on its way."""
    return [line for line in capsys.readouterr().err.splitlines() if " INFO " not in line]


def pools_file(folder: Path, text: str = GOOD) -> str:
    path = folder / "pools.yaml"
    path.write_text(text)
    return str(path)


def trace_file(folder: Path) -> str:
    path = folder / "trace.csv"
    path.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\na,1,1,0,0,1,2,1\n"
    )
    return str(path)


def kubeconfig(folder: Path, url: str, token: str = "") -> str:
    return str(write_kubeconfig(folder / "kubeconfig", url, token))


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield int(taken.getsockname()[1])
