"""`Services` with the adapters of production; only what carries their requests differs from Azure.

In process, a transport hands each request to a stand-in's handler. Over HTTP, the SDKs use their own sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from azure.core.credentials import AccessToken, AzureKeyCredential
from azure.core.pipeline.transport import HttpTransport
from kubernetes.client import Configuration

from functions.services import Services
from local.azure_transport import HandlerTransport, NoAuthentication
from local.kube.rest_transport import make_api
from local.system.endpoints import Endpoints
from local.timeline import Timeline
from local.web import Handler
from shared.adapters.azure_compute import make_compute
from shared.adapters.blobs import make_blob_store
from shared.adapters.event_grid import AzureEventPublisher
from shared.adapters.kubernetes import KubernetesClusterApi
from shared.adapters.kubernetes_access import configured_client
from shared.adapters.protocols import BlobStore, ClusterApi, Compute, EventPublisher
from shared.model import AzureScope

ARM_URL = "https://management.azure.com"
BLOB_URL = "https://sluice.blob.core.windows.net"
TOPIC_URL = "https://sluice.westeurope-1.eventgrid.azure.net"
EVENTS_PATH = "/api/events"


class NoCredential:
    """Stand-ins ask for no token; whoever asks for one all the same gets this."""

    def get_token(self, *_scopes: str, **_options: Any) -> AccessToken:  # noqa: ANN401 - azure-core's own signature
        """A token that is worth nothing."""
        return AccessToken("none", 2**31)


@dataclass(frozen=True, slots=True)
class Doors:
    """The stand-ins' handlers, as one part of the system reaches them."""

    arm: Handler
    cluster: Handler
    blobs: Handler
    topic: Handler
    token: str = ""
    topic_key: str = "local"


class InProcess:
    """Adapters whose requests stay in this process. They never sleep: `slept` counts what they wanted to."""

    def __init__(self, doors: Doors, timeline: Timeline) -> None:
        self._doors, self._timeline = doors, timeline
        self.arm = HandlerTransport(doors.arm, timeline)
        self.blobs = HandlerTransport(doors.blobs, timeline)
        self.topic = HandlerTransport(doors.topic, timeline)

    def services(self) -> Services:
        """For the functions."""
        cluster, store = self.cluster(), self.store()
        return Services(
            compute=cache(self._compute),
            cluster=lambda _: cluster,
            store=lambda: store,
            clock=self._timeline.now,
            account_url=BLOB_URL,
        )

    def cluster(self) -> ClusterApi:
        """The API server."""
        return make_api(self._doors.cluster, self._doors.token)

    def store(self) -> BlobStore:
        """The app's storage account."""
        return make_blob_store(BLOB_URL, None, transport=self.blobs, sleep=self.blobs.sleep)

    def publisher(self) -> EventPublisher:
        """The topic."""
        return AzureEventPublisher(
            TOPIC_URL + EVENTS_PATH, AzureKeyCredential(self._doors.topic_key), transport=self.topic
        )

    def _compute(self, scope: AzureScope) -> Compute:
        return _compute(scope, ARM_URL, self.arm, self.arm.sleep)


def services_over_http(endpoints: Endpoints) -> Services:
    """For a Functions host in a process of its own."""
    configuration = Configuration(host=endpoints.cluster)
    configuration.api_key["BearerToken"] = f"Bearer {endpoints.token}"
    configuration.ssl_ca_cert = endpoints.certificate or None
    cluster = KubernetesClusterApi(configured_client(configuration))
    store = make_blob_store(endpoints.blobs, None)
    return Services(
        compute=cache(lambda scope: _compute(scope, endpoints.arm)),
        cluster=lambda _: cluster,
        store=lambda: store,
        clock=lambda: datetime.now(UTC),
        account_url=endpoints.blobs,
    )


def _compute(
    scope: AzureScope,
    endpoint: str,
    transport: HttpTransport[Any, Any] | None = None,
    sleep: Callable[[float], None] | None = None,
) -> Compute:
    more: dict[str, Any] = {} if sleep is None else {"sleep": sleep}
    return make_compute(
        scope, NoCredential(), endpoint=endpoint, transport=transport, authentication_policy=NoAuthentication(), **more
    )
