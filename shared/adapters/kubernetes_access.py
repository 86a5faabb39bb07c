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
    return configured_client(_load(document, base, context, _place(source)))


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
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Rejected(f"{place}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise Rejected(f"{place}: holds no configuration; expected a mapping with clusters, users and contexts")
    return document, base


def _load(document: dict[str, Any], base: str | None, context: str | None, place: str) -> Configuration:
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
    return configuration


def _names(names: list[Any]) -> str:
    return ", ".join(sorted(str(name) for name in names)) or "(none)"
