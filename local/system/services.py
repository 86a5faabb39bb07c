"""`Services` with the adapters of production; only what carries their requests differs from Azure.

In process, a transport hands each request to a stand-in's handler. Over HTTP, the SDKs use their own sockets.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial

from azure.core.credentials import AzureKeyCredential
from azure.core.pipeline import PipelineRequest
from azure.core.rest import HttpRequest
from kubernetes.client import Configuration

from functions.services import Services
from local.azure_transport import HandlerTransport, NoAuthentication, NoCredential
from local.direct_blobs import DirectBlobStore
from local.kube.rest_transport import make_api
from local.system.endpoints import Endpoints
from local.timeline import Timeline
from local.web import Handler
from shared.adapters.azure_by_kind import make_azure
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
REQUEST_ID = "x-ms-client-request-id"


class NumberedWrites(NoAuthentication):
    """Gives writes a request id by number: the SDK's own are drawn from clock and network card, and go into the tokens
    of operations, and from there into what orchestrations hand on."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def on_request(self, request: PipelineRequest[HttpRequest]) -> None:
        """A poll keeps the id of the write that it asks after."""
        if request.http_request.method != "GET":
            request.http_request.headers[REQUEST_ID] = f"00000000-0000-4000-8000-{next(self._numbers):012x}"


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
    """Adapters whose requests stay in this process. They never sleep: `slept` counts what they wanted to.

    `direct_blobs` leaves out azure-storage-blob, which takes a sixth of a simulated world's time.
    """

    def __init__(self, doors: Doors, timeline: Timeline, *, direct_blobs: bool = False) -> None:
        self._doors, self._timeline, self._direct_blobs = doors, timeline, direct_blobs
        self.arm = HandlerTransport(doors.arm, timeline)
        self.blobs = HandlerTransport(doors.blobs, timeline)
        self.topic = HandlerTransport(doors.topic, timeline)
        self._request_ids = NumberedWrites()

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
        if self._direct_blobs:
            return DirectBlobStore(self._doors.blobs, self._timeline)
        return make_blob_store(BLOB_URL, None, transport=self.blobs, sleep=self.blobs.sleep)

    def publisher(self) -> EventPublisher:
        """The topic."""
        return AzureEventPublisher(
            TOPIC_URL + EVENTS_PATH, AzureKeyCredential(self._doors.topic_key), transport=self.topic
        )

    def _compute(self, scope: AzureScope) -> Compute:
        return make_azure(
            scope,
            NoCredential(),
            endpoint=ARM_URL,
            transport=self.arm,
            authentication_policy=self._request_ids,
            sleep=self.arm.sleep,
        )


def services_over_http(endpoints: Endpoints) -> Services:
    """For a Functions host in a process of its own."""
    configuration = Configuration(host=endpoints.functions_cluster or endpoints.cluster)
    configuration.api_key["BearerToken"] = f"Bearer {endpoints.token}"
    configuration.ssl_ca_cert = endpoints.certificate or None
    cluster = KubernetesClusterApi(configured_client(configuration))
    store = make_blob_store(endpoints.blobs, None)
    return Services(
        compute=cache(partial(_compute_over_http, endpoints.arm)),
        cluster=lambda _: cluster,
        store=lambda: store,
        clock=lambda: datetime.now(UTC),
        account_url=endpoints.blobs,
    )


def _compute_over_http(endpoint: str, scope: AzureScope) -> Compute:
    return make_azure(scope, NoCredential(), endpoint=endpoint, authentication_policy=NoAuthentication())
