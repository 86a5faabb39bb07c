"""The process: `python -m exporter [watch | node-agent]`. Exit codes are those of the command line of Sluice.

0 stopped as asked, 2 bad input (flags, pools file, kubeconfig, port in use), 3 the API server cannot be reached, 4 a
right is missing; each with one line, or a line per problem, on standard error.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from azure.core.credentials import AzureKeyCredential

from exporter.config_source import WatchedConfig, source_of
from exporter.envelope import eviction_notice
from exporter.health import Health, HealthServer
from exporter.lease import LeaseTerms, lease_path
from exporter.node_agent import POLL_SECONDS, Fetch, Machine, NodeAgent, fetch_metadata, read_machine
from exporter.runner import Runner
from exporter.service import ExporterService
from exporter.settings import NODE_AGENT, Settings, SettingsError, read_settings
from shared.adapters.blobs import make_blob_store
from shared.adapters.errors import NotFound, OutsideError, Refused, RetryLater
from shared.adapters.event_grid import AzureEventPublisher
from shared.adapters.kubernetes import KubernetesClusterApi
from shared.adapters.protocols import BlobStore, ClusterApi
from shared.settings.config import ConfigError

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

DONE, BAD_INPUT, UNREACHABLE, NO_RIGHTS = 0, 2, 3, 4

_log = logging.getLogger(__name__)

Stop = Callable[[], None]


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> int:
    """Run until SIGTERM or SIGINT. Returns the exit code."""
    _set_up_logging()
    environment = os.environ if environment is None else environment
    try:
        settings = read_settings(sys.argv[1:] if arguments is None else arguments, environment)
        return _run_agent(settings) if settings.role == NODE_AGENT else _run_watch(settings)
    except SettingsError as error:
        return _refuse(BAD_INPUT, *error.problems)
    except ConfigError as error:
        return _refuse(BAD_INPUT, *(f"pools file: {problem}" for problem in error.problems))
    except RetryLater as error:
        return _refuse(UNREACHABLE, f"{error}; check the address, and that it can be reached from here")
    except Refused as error:
        return _refuse(NO_RIGHTS, f"{error}; give the exporter's account that right")
    except OutsideError as error:
        return _refuse(BAD_INPUT, str(error))


def _run_watch(settings: Settings) -> int:
    store = _store(settings)
    config = WatchedConfig(source_of(settings.pools, store), _now)
    api = _cluster_api(settings)
    terms = LeaseTerms(namespace=settings.lease_namespace, name=settings.lease_name)
    publisher = AzureEventPublisher(settings.topic_endpoint, _topic_credential(settings))
    service = ExporterService(
        api,
        publisher,
        store,
        config,
        _now,
        identity=settings.identity,
        account_url=settings.storage_url.partition("?")[0],
        terms=terms,
    )
    _first_look(service, api, terms)
    runner = Runner(service, _now)
    with _Served(settings.port, runner.health):
        _on_signal(runner.stop)
        runner.run()
    publisher.close()
    return DONE


def _first_look(service: ExporterService, api: ClusterApi, terms: LeaseTerms) -> None:
    """List everything once before anything is promised: what is wrong with address or rights shows now, by name."""
    for reflector in service.reflectors:
        reflector.sync_once(timeout_seconds=1)
    try:
        api.get(lease_path(terms))
    except NotFound:
        _log.info("the lease is not there yet and will be made")


def _run_agent(settings: Settings) -> int:
    publisher = AzureEventPublisher(settings.topic_endpoint, _topic_credential(settings))
    stopping = threading.Event()
    _on_signal(stopping.set)
    state: list[NodeAgent] = []
    with _Served(settings.port, lambda: _agent_health(state)):
        machine = _wait_for_machine(fetch_metadata, stopping)
        if machine is not None:
            build = partial(eviction_notice, settings.cluster, settings.node, machine)
            state.append(NodeAgent(fetch_metadata, publisher, machine, build))
        while not stopping.is_set():
            state[0].poll(_now())
            stopping.wait(POLL_SECONDS)
    publisher.close()
    return DONE


def _wait_for_machine(fetch: Fetch, stopping: threading.Event) -> Machine | None:
    """Who we are, asked until the metadata service answers; None when we are stopped before."""
    told = ""
    while not stopping.is_set():
        try:
            return read_machine(fetch)
        except (OSError, ValueError) as error:
            if str(error) != told:
                _log.warning("the metadata service does not say who we are yet: %s", error)
            told = str(error)
            stopping.wait(POLL_SECONDS)
    return None


def _agent_health(state: Sequence[NodeAgent]) -> Health:
    problem = state[0].problem if state else "the metadata service has not answered yet"
    return Health(alive=True, ready=bool(state), problem=problem)


class _Served:
    """A health endpoint for as long as the block runs. Raises SettingsError when the port is in use."""

    def __init__(self, port: int, look: Callable[[], Health]) -> None:
        try:
            self._server = HealthServer(port, look)
        except OSError as error:
            raise SettingsError([f"--port {port}: cannot be used ({error.strerror}); choose another"]) from error

    def __enter__(self) -> None:
        _log.info("health on port %s", self._server.port)

    def __exit__(self, *_: object) -> None:
        self._server.close()


def _cluster_api(settings: Settings) -> ClusterApi:
    if settings.kubeconfig:
        return KubernetesClusterApi.from_kubeconfig(settings.kubeconfig, settings.context or None)
    return KubernetesClusterApi.in_cluster()


def _store(settings: Settings) -> BlobStore | None:
    """With the process's identity where TLS protects its token, unless the URL carries a SAS."""
    if not settings.storage_url:
        return None
    own = settings.storage_url.startswith("https://") and "?" not in settings.storage_url
    return make_blob_store(settings.storage_url, _identity() if own else None)


def _topic_credential(settings: Settings) -> TokenCredential | AzureKeyCredential:
    return AzureKeyCredential(settings.topic_key) if settings.topic_key else _identity()


def _identity() -> TokenCredential:
    from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - 0.2 s that a key spares

    return DefaultAzureCredential()


def _on_signal(stop: Stop) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())


def _set_up_logging() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    for noisy in ("azure", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _refuse(code: int, *lines: str) -> int:
    for line in lines:
        sys.stderr.write(f"sluice-exporter: {line}\n")
    return code


def _now() -> datetime:
    return datetime.now(UTC)
