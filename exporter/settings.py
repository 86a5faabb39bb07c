"""Flags and environment: every flag has a variable, a flag wins. Secrets have a variable or a file, never a flag."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

WATCH, NODE_AGENT = "watch", "node-agent"
DEFAULT_PORT = 8080


class SettingsError(ValueError):
    """The process cannot start like this; `problems` holds everything that is wrong, a line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class Settings:
    """All that a process of either role needs to know. Empty means not given; an empty `topic_key` means that the
    process's own identity is used, an empty `kubeconfig` means the service account of the pod."""

    role: str
    topic_endpoint: str
    topic_key: str
    port: int
    pools: str = ""
    storage_url: str = ""
    kubeconfig: str = ""
    context: str = ""
    identity: str = ""
    lease_namespace: str = ""
    lease_name: str = ""
    cluster: str = ""
    node: str = ""


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Raises SettingsError with all problems at once; exits as argparse does for an unknown flag or --help."""
    given = _parser(environment).parse_args(arguments)
    problems: list[str] = []
    key = _topic_key(given.topic_key_file, environment, problems)
    _check_topic(given.topic, key, problems)
    port = _port(given.port, problems)
    if given.role == NODE_AGENT:
        _require(given, {"cluster": "SLUICE_CLUSTER", "node": "SLUICE_NODE_NAME"}, problems)
    else:
        _require(given, {"pools": "SLUICE_POOLS"}, problems)
    if problems:
        raise SettingsError(problems)
    return Settings(
        role=given.role,
        topic_endpoint=given.topic,
        topic_key=key,
        port=port,
        pools=given.pools,
        storage_url=given.storage,
        kubeconfig=given.kubeconfig,
        context=given.context,
        identity=given.identity,
        lease_namespace=given.lease_namespace,
        lease_name=given.lease_name,
        cluster=given.cluster,
        node=given.node,
    )


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sluice-exporter", description=__doc__)
    parser.add_argument("role", nargs="?", choices=(WATCH, NODE_AGENT), default=WATCH)
    identity = f"{socket.gethostname()}_{os.getpid()}"
    for flag, variable, default, meaning in (
        ("--topic", "SLUICE_TOPIC_ENDPOINT", "", "the Event Grid topic's endpoint, .../api/events"),
        (
            "--topic-key-file",
            "SLUICE_TOPIC_KEY_FILE",
            "",
            "a file with the topic's key; or the key in SLUICE_TOPIC_KEY",
        ),
        ("--port", "SLUICE_HEALTH_PORT", str(DEFAULT_PORT), "of /healthz, /readyz and /metrics; 0 takes a free one"),
        ("--pools", "SLUICE_POOLS", "", "the pools file: a path, an http(s) URL, or blob:CLUSTER"),
        ("--storage", "SLUICE_STORAGE_URL", "", "the storage account's blob endpoint, for large snapshots"),
        ("--kubeconfig", "KUBECONFIG", "", "absent: the service account of the pod"),
        ("--context", "SLUICE_KUBE_CONTEXT", "", "absent: the kubeconfig's current one"),
        ("--identity", "SLUICE_IDENTITY", identity, "who holds the Lease; absent: host and process"),
        ("--lease-namespace", "SLUICE_LEASE_NAMESPACE", "kube-system", "where the Lease lies"),
        ("--lease-name", "SLUICE_LEASE_NAME", "sluice-exporter", "the Lease's name"),
        ("--cluster", "SLUICE_CLUSTER", "", "node-agent only: the cluster's name in the pools file"),
        ("--node", "SLUICE_NODE_NAME", "", "node-agent only: this Node's name"),
    ):
        parser.add_argument(flag, default=environment.get(variable) or default, help=f"{meaning} [{variable}]")
    return parser


def _topic_key(path: str, environment: Mapping[str, str], problems: list[str]) -> str:
    if not path:
        return environment.get("SLUICE_TOPIC_KEY", "").strip()
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"--topic-key-file {path}: cannot be read ({error})")
        return ""


def _check_topic(endpoint: str, key: str, problems: list[str]) -> None:
    if not endpoint:
        problems.append("--topic is missing: give the topic's endpoint, or set SLUICE_TOPIC_ENDPOINT")
        return
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.netloc or not parts.path.endswith("/api/events"):
        problems.append(f"--topic {endpoint}: expected https://<topic>.<region>-1.eventgrid.azure.net/api/events")
    elif parts.scheme == "http" and not key:
        problems.append(f"--topic {endpoint}: an identity's token is not sent without TLS; set SLUICE_TOPIC_KEY")


def _port(text: str, problems: list[str]) -> int:
    if text.isdigit() and int(text) < 65536:
        return int(text)
    problems.append(f"--port {text}: expected a number from 0 to 65535")
    return 0


def _require(given: argparse.Namespace, variables: Mapping[str, str], problems: list[str]) -> None:
    for name, variable in variables.items():
        if not getattr(given, name):
            problems.append(f"--{name} is missing: give it, or set {variable}")
