"""Start the five programs in order, hand out an administrator's access, end them all.

Readiness means what a test means by it: a pod could be created in namespace
``default`` now. The API server answers seconds before that is true, since the
controller manager first has to make the namespace's service account.
"""

import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.e2e.control_plane import commands
from tests.e2e.control_plane.access import free_ports, kubeconfig, new_private_key
from tests.e2e.control_plane.api import Api, Reply
from tests.e2e.control_plane.binaries import PROGRAMS, Binaries
from tests.e2e.control_plane.commands import Ports, Site
from tests.e2e.control_plane.process import Process, wait_until_ready

READY_TIMEOUT_S = 90.0
"""Per program; each needs 1 to 3 s on an idle machine, this is for a crowded one."""

PROBE_POD = {
    "metadata": {"generateName": "probe-"},
    "spec": {"containers": [{"name": "probe", "image": "probe"}]},
}


class ControlPlane:
    """A Kubernetes control plane of its own, from ``with`` to the end of the block.

    Args:
        gangs: Enable native gang scheduling (``scheduling.k8s.io/v1alpha2`` PodGroups).
        directory: A fresh folder for logs and keys (etcd's data too, but that never stays).
            It is left in place, so a pytest temporary folder keeps the logs of failed runs.
            Without it a folder is made, and removed unless an exception ends the block.
        flags: More flags by program name, put last so that they win, for example
            ``{"kube-controller-manager": ["--horizontal-pod-autoscaler-sync-period=2s"]}``.

    Raises:
        BinariesMissingError: At once, when the build has not been run.
        StartError: On entry, when a program ends or does not get ready.
    """

    def __init__(
        self,
        *,
        gangs: bool = False,
        directory: Path | None = None,
        flags: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._flags = _known_programs_only(flags or {})
        self._keep_directory = directory is not None
        self.token = secrets.token_hex(16)
        binaries = Binaries.from_environment()
        binaries.require()
        home = directory.absolute() if directory else Path(tempfile.mkdtemp(prefix="control-plane-"))
        self._site = Site(binaries, home, free_ports(), gangs)
        self._processes: list[Process] = []

    @property
    def url(self) -> str:
        """The API server's address, without a trailing slash."""
        return self._site.url

    @property
    def scheduler_url(self) -> str:
        """Where kube-scheduler serves its own health and metrics."""
        return f"https://127.0.0.1:{self._site.ports.scheduler}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, complete in one file."""
        return self._site.kubeconfig

    @property
    def ca(self) -> Path:
        """The certificate to trust when the kubeconfig is not used."""
        return self._site.ca

    @property
    def logs(self) -> Path:
        """The folder with one log file per program."""
        return self._site.home / "logs"

    @property
    def pids(self) -> Mapping[str, int]:
        """The process id of each program, by name."""
        return {process.name: process.pid for process in self._processes}

    @property
    def api(self) -> Api:
        """A thin client with the administrator's rights."""
        return Api(self.url, token=self.token, ca=self.ca)

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._stop)
            self._start()
            undo.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop()
        if kind is None and not self._keep_directory:
            shutil.rmtree(self._site.home)

    def _start(self) -> None:
        self._write_secrets()
        ports = self._site.ports
        etcd = Api(f"http://127.0.0.1:{ports.etcd}")
        self._wait(self._run("etcd", commands.etcd), lambda: etcd.get("/health"))
        apiserver = self._run("kube-apiserver", commands.apiserver)
        self._wait(apiserver, self._apiserver_ready)
        self._write_kubeconfig()
        self._start_clients(ports)
        self._wait(apiserver, self._pod_can_be_created)

    def _start_clients(self, ports: Ports) -> None:
        """Start the programs that talk to the API server side by side."""
        manager = self._run("kube-controller-manager", commands.controller_manager)
        scheduler = self._run("kube-scheduler", commands.scheduler)
        kwok = self._run("kwok", commands.kwok)
        self._wait(manager, self._health(f"https://127.0.0.1:{ports.controller_manager}"))
        self._wait(scheduler, self._health(f"https://127.0.0.1:{ports.scheduler}", "/readyz"))
        self._wait(kwok, self._health(f"http://127.0.0.1:{ports.kwok}"))

    def _run(self, name: str, command: Callable[[Site], list[str]]) -> Process:
        line = [*command(self._site), *self._flags.get(name, ())]
        process = Process(name, line, self._site.home, self.logs / f"{name}.log")
        self._processes.append(process)
        return process

    def _wait(self, process: Process, probe: Callable[[], Reply]) -> None:
        wait_until_ready(process, probe, self._processes, READY_TIMEOUT_S)

    def _health(self, url: str, path: str = "/healthz") -> Callable[[], Reply]:
        api = Api(url, ca=self.ca)
        return lambda: api.get(path)

    def _apiserver_ready(self) -> Reply:
        """Nothing can be asked until the server has written its certificate (the key comes last)."""
        if not self.ca.with_suffix(".key").exists():
            return Reply(0, "no certificate yet")
        return self.api.get("/readyz")

    def _pod_can_be_created(self) -> Reply:
        return self.api.post("/api/v1/namespaces/default/pods?dryRun=All", PROBE_POD)

    def _write_secrets(self) -> None:
        self.logs.mkdir(parents=True)
        self._site.token_file.write_text(f'{self.token},admin,admin,"system:masters"\n')
        self._site.service_account_key.write_bytes(new_private_key())
        documents = (commands.KWOK_OPTIONS, *commands.ENDINGS)
        self._site.kwok_options.write_text("\n---\n".join(json.dumps(document) for document in documents))

    def _write_kubeconfig(self) -> None:
        self.kubeconfig.write_text(json.dumps(kubeconfig(self.url, self.token, self.ca)))

    def _stop(self) -> None:
        """Newest first, since each would wait in vain for those it was started after."""
        while self._processes:
            self._processes.pop().kill()
        shutil.rmtree(self._site.data, ignore_errors=True)


def _known_programs_only(flags: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    known = [program.name for program in PROGRAMS]
    for name in flags:
        if name not in known:
            raise ValueError(f"flags for unknown program {name!r}; known: {', '.join(known)}")
    return flags
