"""`BlobStore` by azure-storage-blob, each call one request: no chunks, no retries that sleep.

Snapshots and plans are some kilobytes; the SDK's own single-shot limits (32 MiB read, 64 MiB written) are far off.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError

from shared.adapters.azure_errors import short_retries, translate, translated
from shared.adapters.errors import NotFound, StaleWrite
from shared.adapters.protocols import Blob

if TYPE_CHECKING:
    from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential, TokenCredential
    from azure.core.pipeline.transport import HttpTransport
    from azure.storage.blob import BlobClient, BlobServiceClient, ContainerClient

    Credential = TokenCredential | AzureNamedKeyCredential | AzureSasCredential | str

Names = list[str]  # inside the class, `list` is its own method
_MISSING_CONTAINER = "ContainerNotFound"
CLIENTS_KEPT = 64  # making the SDK's client for a blob takes as long as an answer; the pools file is read all the time


def make_blob_store(
    account_url: str,
    credential: Credential | None,
    *,
    transport: HttpTransport[Any, Any] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> AzureBlobStore:
    """The store behind `account_url` (https://<account>.blob.core.windows.net, or a stand-in's URL with the account in
    its path). No `credential` is for stand-ins and URLs that carry a SAS."""
    # 0.2 s of import that a function which reads no blob shall not pay on a cold start
    from azure.storage.blob import BlobServiceClient  # noqa: PLC0415

    extra: dict[str, Any] = {"transport": transport} if transport is not None else {}
    service = BlobServiceClient(
        account_url, credential=credential, retry_total=0, connection_timeout=5, read_timeout=60, **extra
    )
    return AzureBlobStore(service, sleep)


class AzureBlobStore:
    """See `shared.adapters.protocols.BlobStore`."""

    def __init__(self, service: BlobServiceClient, sleep: Callable[[float], None]) -> None:
        self._service = service
        self._containers: dict[str, ContainerClient] = {}
        self._blob = lru_cache(CLIENTS_KEPT)(self._make_blob_client)
        self._retrying = short_retries(sleep)

    def close(self) -> None:
        """Close the connections; Functions never do, tests and short commands should."""
        self._service.close()

    def get(self, container: str, name: str) -> Blob:
        """See `BlobStore.get`."""
        with translated(f"reading blob {container}/{name}"):
            return self._retrying(self._download, container, name)

    def get_if_changed(self, container: str, name: str, etag: str) -> Blob | None:
        """See `BlobStore.get_if_changed`."""
        guard = {"etag": etag, "match_condition": MatchConditions.IfModified} if etag else {}
        with translated(f"reading blob {container}/{name}"):
            try:
                return self._retrying(self._download, container, name, **guard)
            except HttpResponseError as error:
                if error.status_code == 304:
                    return None
                raise

    def put(self, container: str, name: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        """See `BlobStore.put`."""
        guard = {"etag": if_match, "match_condition": MatchConditions.IfNotModified} if if_match else {}
        doing = f"writing blob {container}/{name}"
        try:
            with translated(doing):
                return self._upload(container, name, data, overwrite=not if_absent, **guard)
        except NotFound as error:
            if error.code != _MISSING_CONTAINER:
                raise
        if if_match:
            raise StaleWrite(f"{doing}: it is not there any more", code=_MISSING_CONTAINER, status=404)
        self._create_container(container)
        with translated(doing):
            return self._upload(container, name, data, overwrite=not if_absent)

    def delete(self, container: str, name: str) -> None:
        """See `BlobStore.delete`."""
        try:
            with translated(f"deleting blob {container}/{name}"):
                self._container(container).delete_blob(name)
        except NotFound:
            return

    def list(self, container: str, prefix: str = "") -> list[str]:
        """See `BlobStore.list`."""
        try:
            with translated(f"listing blobs of {container}"):
                return self._retrying(self._names, container, prefix)
        except NotFound:
            return []

    def older(self, container: str, prefix: str, before: datetime) -> Names:
        """See `BlobStore.older`."""
        try:
            with translated(f"listing blobs of {container}"):
                return self._retrying(self._old_names, container, prefix, before)
        except NotFound:
            return []

    def _download(self, container: str, name: str, **guard: Any) -> Blob:  # noqa: ANN401 - the SDK's own keywords
        stream = self._blob(container, name).download_blob(**guard)
        data: bytes = stream.readall()
        return Blob(data, str(stream.properties.etag))

    def _upload(
        self,
        container: str,
        name: str,
        data: bytes,
        **options: Any,  # noqa: ANN401 - the SDK's own keywords
    ) -> str:
        answer = self._blob(container, name).upload_blob(data, **options)
        return str(answer["etag"])

    def _names(self, container: str, prefix: str) -> Names:
        return list(self._container(container).list_blob_names(name_starts_with=prefix or None))

    def _old_names(self, container: str, prefix: str, before: datetime) -> Names:
        found = self._container(container).list_blobs(name_starts_with=prefix or None)
        return [str(blob.name) for blob in found if blob.last_modified < before]

    def _create_container(self, name: str) -> None:
        try:
            self._container(name).create_container()
        except ResourceExistsError as error:
            refusal = translate(error, f"creating container {name}")
            if refusal.code != "ContainerAlreadyExists":  # being deleted, for instance
                raise refusal from error

    def _make_blob_client(self, container: str, name: str) -> BlobClient:
        return self._container(container).get_blob_client(name)

    def _container(self, name: str) -> ContainerClient:
        client = self._containers.get(name)
        if client is None:
            client = self._containers[name] = self._service.get_container_client(name)
        return client
