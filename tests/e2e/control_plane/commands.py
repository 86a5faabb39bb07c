"""The command line of each program, as a pure function of where it runs.

Everything here differs from the programs' defaults for a reason that is given;
what is not named behaves as it does in a cluster.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.e2e.control_plane.binaries import Binaries

FAKE_NODE = "kwok.x-k8s.io/node=fake"
"""Only nodes annotated so are played; any other stays NotReady, like a machine that hangs."""

GANG_GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"

CLIENT_LIMITS = ("--kube-api-qps=5000", "--kube-api-burst=10000")
"""The defaults (50 and 20 per second) would measure the throttle instead of the scheduler."""

KWOK_OPTIONS = {
    "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
    "kind": "KwokConfiguration",
    "options": {
        "podPlayStageParallelism": 16,
        "nodePlayStageParallelism": 16,
        "nodeLeaseParallelism": 16,
    },
}
"""Four of each by default, which falls behind when a thousand pods are bound in a burst."""

STUBBORN = "stubborn"
"""A label: such a pod ignores that it is to end, so that the kubelet kills it when its grace period is over."""


def _ending(name: str, stubborn: str, **delay: object) -> dict[str, object]:
    ends = {"key": ".metadata.deletionTimestamp", "operator": "Exists"}
    marked = {"key": f".metadata.labels.{STUBBORN}", "operator": stubborn}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": [ends, marked]},
            "next": {"delete": True},
            **delay,
        },
    }


_GRACE_OVER = {"durationFrom": {"expressionFrom": ".metadata.deletionTimestamp"}}
ENDINGS = (_ending("pod-ends", "DoesNotExist"), _ending("pod-is-killed", "Exists", delay=_GRACE_OVER))
"""In place of kwok's own stage, by which every pod ends at once."""
REPLACED = "pod-delete.yaml"


@dataclass(frozen=True, slots=True)
class Ports:
    """One loopback port per listener."""

    etcd: int
    etcd_peer: int
    apiserver: int
    scheduler: int
    controller_manager: int
    kwok: int


@dataclass(frozen=True, slots=True)
class Site:
    """Where one control plane runs: its programs, folder, ports, and whether it knows gangs."""

    binaries: Binaries
    home: Path
    ports: Ports
    gangs: bool

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.ports.apiserver}"

    @property
    def data(self) -> Path:
        """etcd's files, worthless after the run."""
        return self.home / "etcd"

    @property
    def certificates(self) -> Path:
        """Where the API server leaves the certificate it makes for itself."""
        return self.home / "certificates"

    @property
    def ca(self) -> Path:
        """What a client must trust."""
        return self.certificates / "apiserver.crt"

    @property
    def token_file(self) -> Path:
        """The static token of the administrator."""
        return self.home / "tokens.csv"

    @property
    def service_account_key(self) -> Path:
        """What service accounts' tokens are signed with."""
        return self.home / "service-account.key"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, also used by the programs themselves."""
        return self.home / "kubeconfig"

    @property
    def kwok_options(self) -> Path:
        """kwok's options that have no flag."""
        return self.home / "kwok.json"


def etcd(site: Site) -> list[str]:
    """Without fsync: the data does not outlive the test."""
    client = f"http://127.0.0.1:{site.ports.etcd}"
    peer = f"http://127.0.0.1:{site.ports.etcd_peer}"
    return [
        str(site.binaries.path("etcd")),
        f"--data-dir={site.data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(site: Site) -> list[str]:
    """Addresses are given, since guessing them fails on a machine without a default route."""
    command = [
        str(site.binaries.path("kube-apiserver")),
        f"--etcd-servers=http://127.0.0.1:{site.ports.etcd}",
        f"--secure-port={site.ports.apiserver}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={site.certificates}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={site.service_account_key}",
        f"--service-account-signing-key-file={site.service_account_key}",
        f"--token-auth-file={site.token_file}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged=true",
    ]
    if site.gangs:
        command += [GANG_GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true"]
    return command


def scheduler(site: Site) -> list[str]:
    """The default scheduler, alone and unthrottled."""
    return [
        str(site.binaries.path("kube-scheduler")),
        *_client(site, site.ports.scheduler),
    ]


def controller_manager(site: Site) -> list[str]:
    """Each controller under its own service account, so that RBAC is as tight as in a cluster."""
    return [
        str(site.binaries.path("kube-controller-manager")),
        *_client(site, site.ports.controller_manager),
        f"--service-account-private-key-file={site.service_account_key}",
        "--use-service-account-credentials=true",
        f"--root-ca-file={site.ca}",
        "--node-monitor-period=2s",  # taints and evictions follow a node's end within 2 s, not 5
    ]


def _client(site: Site, port: int) -> list[str]:
    """Flags that scheduler and controller manager share; they borrow the apiserver's certificate."""
    flags = [
        f"--kubeconfig={site.kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={site.ca}",
        f"--tls-private-key-file={site.ca.with_suffix('.key')}",
        *CLIENT_LIMITS,
    ]
    return [*flags, GANG_GATES] if site.gangs else flags


def kwok(site: Site) -> list[str]:
    """Plays the kubelets, unthrottled; its own pod network of 254 addresses is soon used up."""
    configs = [site.kwok_options, *(file for file in site.binaries.stage_files() if file.name != REPLACED)]
    return [
        str(site.binaries.path("kwok")),
        f"--kubeconfig={site.kubeconfig}",
        f"--manage-nodes-with-annotation-selector={FAKE_NODE}",
        "--manage-all-nodes=false",
        "--cidr=10.128.0.0/9",
        f"--server-address=127.0.0.1:{site.ports.kwok}",
        *(f"--config={config}" for config in configs),
    ]
