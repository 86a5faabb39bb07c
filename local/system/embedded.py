"""The embedded system on the wall clock: three processes over HTTP, as in Azure, and this one, which is their owner.

The stand-ins keep the truth, the Functions host runs the app, the exporter watches. Because they are processes of their
own, the Functions host can be killed at any moment and started again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson

from local.errors import UserError
from local.kube.kubeconfig import write_kubeconfig
from local.system.children import Child
from local.system.endpoints import FUNCTIONS_PORT, STATE, Endpoints
from shared.adapters.kubernetes import KubernetesClusterApi


@dataclass(frozen=True, slots=True)
class Installation:
    """Where the Functions host takes Python and the app from; by default, from where this process does."""

    python: str = sys.executable
    path: tuple[Path, ...] = ()

    def environment(self) -> dict[str, str]:
        """What the process needs to know."""
        return {"PYTHONPATH": os.pathsep.join(map(str, self.path)), "PYTHONSAFEPATH": "1"} if self.path else {}


class Embedded:
    """A context manager. `pools` is a valid pools file; everything is written below `out`.

    Raises UserError when a part cannot start; `port` 0 lets the API server take a free one.
    """

    def __init__(
        self, pools: Path, out: Path, *, seed: int = 1, port: int = 0, installation: Installation | None = None
    ) -> None:
        self.out, self.state = out, out / STATE
        self._pools, self._seed, self._port = pools, seed, port
        self._installation = installation or Installation()
        self._children: list[Child] = []
        self.functions: Child | None = None
        self._functions_port = 0
        self._claim: IO[bytes] | None = None

    def __enter__(self) -> Embedded:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything, the exporter first and the stand-ins last."""
        for child in reversed([*self._children]):
            child.stop()
        self._children = []
        if self._claim is not None:
            self._port_file.unlink(missing_ok=True)
            self._claim.close()
            self._claim = None

    def _start(self) -> None:
        self._claim = claimed(self.out)
        _empty(self.state)
        self._start_stand_ins()
        self.endpoints = Endpoints.read(self._endpoints_file)
        self.kubeconfig = self.out / "kubeconfig"
        write_kubeconfig(self.kubeconfig, self.endpoints.cluster, self.endpoints.token)
        self.api = KubernetesClusterApi.from_kubeconfig(str(self.kubeconfig))
        self.start_functions()
        self.control("POST", "/connect", {"url": self.functions_url})
        self._start_exporter()

    @property
    def _endpoints_file(self) -> Path:
        return self.state / "endpoints.json"

    @property
    def _port_file(self) -> Path:
        return self.state / FUNCTIONS_PORT

    @property
    def functions_url(self) -> str:
        """Where the Functions host listens; the same after every restart."""
        return f"http://127.0.0.1:{self._functions_port}"

    def _start_stand_ins(self) -> None:
        arguments = ["--pools", self._pools, "--state", self.state, "--out", self.out, "--seed", self._seed]
        child = self._child("stand-ins", "local.system.stand_ins_process", [*arguments, "--port", self._port])
        child.wait_until(self._endpoints_file.exists)

    def start_functions(self) -> None:
        """Start the Functions host, again after a kill: it finds its journal where it was."""
        self._port_file.unlink(missing_ok=True)
        arguments = ["--state", self.state, "--port", self._functions_port]
        where = self._installation
        self.functions = self._child(
            "functions", "local.system.functions_process", arguments, where.environment(), where.python
        )
        self.functions.wait_until(self._port_file.exists)
        self._functions_port = int(self._port_file.read_text())

    def kill_functions(self) -> None:
        """kill -9, as a machine that goes away does it."""
        if self.functions is not None:
            self.functions.kill()
            self._children.remove(self.functions)

    def _start_exporter(self) -> None:
        environment = {
            "SLUICE_TOPIC_ENDPOINT": f"{self.endpoints.topic}/api/events",
            "SLUICE_TOPIC_KEY": self.endpoints.topic_key,
            "SLUICE_POOLS": str(self._pools),
            "SLUICE_STORAGE_URL": self.endpoints.blobs,
            "SLUICE_HEALTH_PORT": "0",
            "KUBECONFIG": str(self.kubeconfig),
        }
        self._child("exporter", "exporter", [], environment)

    def _child(
        self,
        name: str,
        module: str,
        arguments: Sequence[object],
        environment: dict[str, str] | None = None,
        python: str = sys.executable,
    ) -> Child:
        log = self.state / f"{name}.log"
        child = Child(name, module, [str(argument) for argument in arguments], log, environment or {}, python)
        self._children.append(child)
        return child

    def check(self) -> None:
        """Raises UserError when a part has ended by itself."""
        for child in self._children:
            child.check()

    def control(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - each route has its own answer
        """Ask the stand-ins' own door."""
        return _exchange(method, self.endpoints.control + path, body)

    def status(self) -> Any:  # noqa: ANN401 - the app's own document
        """What the app's HTTP `status` says."""
        return _exchange("GET", f"{self.functions_url}/api/status")

    def broken_rules(self) -> list[str]:
        """What the Functions host that runs now saw its functions do against the rules of Durable Functions."""
        found: list[str] = _exchange("GET", f"{self.functions_url}/admin/host/status")["violations"]
        return found

    def orchestrations(self) -> list[dict[str, Any]]:
        """All orchestrations with their runtimeStatus, by the durable webhook."""
        found: list[dict[str, Any]] = _exchange("GET", f"{self.functions_url}/durabletask/instances/")
        return found


def claimed(out: Path) -> IO[bytes]:
    """A lock on the folder, held until it is closed or this process ends. Raises UserError when somebody has it."""
    file = (out / "lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise UserError(f"--out {out}: another embedded system runs there: stop it, or name another folder") from error
    return file


def _empty(folder: Path) -> None:
    """What an earlier run left would be taken for this one's."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _exchange(method: str, url: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
    data = None if body is None else orjson.dumps(body)
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310 - loopback
            return orjson.loads(response.read())
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{method} {url}: {error.code} {error.read().decode(errors='replace')}") from error
