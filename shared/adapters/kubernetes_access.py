"""Where the API server is and who we are there: a kubeconfig, or the service account of the pod we run in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config
from kubernetes.config.kube_config import KubeConfigLoader

from shared.adapters.errors import Rejected

CONNECTIONS = 16
"""Pooled connections per API server: a Functions worker runs about as many activities at a time."""


def client_from_kubeconfig(source: str, context: str | None = None) -> ApiClient:
    """A client for `context` (default: the file's current one) of the kubeconfig at path `source`, or of its text.

    Raises Rejected, in one line that says what to do, when the file is missing, no kubeconfig, or without that context.
    """
    document, base = _document(source)
    return configured_client(configuration_of(document, base, context, _place(source)))


def client_in_cluster() -> ApiClient:
    """A client with the pod's service account; its token is read again as the kubelet renews it. Raises Rejected."""
    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)
    except ConfigException as error:
        raise Rejected(f"not inside a pod with a service account ({error}); give a kubeconfig instead") from error
    return configured_client(configuration)


def configured_client(configuration: Configuration) -> ApiClient:
    """A client that never repeats a request on its own."""
    configuration.retries = False
    configuration.client_go_retries = False
    configuration.connection_pool_maxsize = CONNECTIONS
    return ApiClient(configuration)


def _place(source: str) -> str:
    return "the kubeconfig" if "\n" in source else f"kubeconfig {source}"


def _document(source: str) -> tuple[dict[str, Any], str | None]:
    place = _place(source)
    text, base = source, None
    if "\n" not in source:
        path = Path(source).expanduser()
        base = str(path.parent)
        try:
            text = path.read_text()
        except FileNotFoundError as error:
            raise Rejected(f"{place}: there is no such file; name another with --kubeconfig or KUBECONFIG") from error
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise Rejected(
                f"{place}: cannot be read: {reason}; name another with --kubeconfig or KUBECONFIG"
            ) from error
    return parsed(text, place), base


def parsed(text: str, place: str) -> dict[str, Any]:
    """A kubeconfig's text as a document; `place` is what messages call it. Raises Rejected."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Rejected(f"{place}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise Rejected(f"{place}: holds no configuration; expected a mapping with clusters, users and contexts")
    return document


def entry_of(document: dict[str, Any], table: str, name: str, kind: str, place: str) -> dict[str, Any]:
    """The entry of that name in one of a kubeconfig's tables. Raises Rejected when there is none."""
    for entry in document.get(table) or []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
            found: dict[str, Any] = entry[kind]
            return found
    raise Rejected(f"{place}: has no {kind} {name!r} in its {table}; name one of them, or add it")


def configuration_of(document: dict[str, Any], base: str | None, context: str | None, place: str) -> Configuration:
    """The client's configuration by a context of a document. Raises Rejected."""
    wanted = context or document.get("current-context")
    names = [entry.get("name") for entry in document.get("contexts") or [] if isinstance(entry, dict)]
    if not wanted:
        raise Rejected(f"{place}: has no current-context; set one with kubectl config use-context, of: {_names(names)}")
    if wanted not in names:
        raise Rejected(f"{place}: has no context {wanted!r}; it has: {_names(names)}")
    configuration = Configuration()
    try:
        KubeConfigLoader(document, active_context=wanted, config_base_path=base).load_and_set(configuration)
    except (ConfigException, KeyError, TypeError, ValueError) as error:
        raise Rejected(f"{place}: context {wanted!r} cannot be used: {error}") from error
    if not configuration.verify_ssl:
        raise Rejected(
            f"{place}: insecure-skip-tls-verify: is never heeded; remove it, and give certificate-authority-data"
        )
    return configuration


def _names(names: list[Any]) -> str:
    return ", ".join(sorted(str(name) for name in names)) or "(none)"
