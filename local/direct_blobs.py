"""`BlobStore` straight over a blob stand-in's handler: what azure-storage-blob would send, without azure-storage-blob.

The SDK takes a millisecond for each call, a sixth of a simulated world. Held against the SDK's adapter by one contract
suite (tests/blobs).
"""

from __future__ import annotations

import re
from datetime import datetime
from email.utils import parsedate_to_datetime
from urllib.parse import quote
from xml.sax.saxutils import unescape

from local.azure_transport import CONNECTION_LOST
from local.timeline import Timeline
from local.web import Handler, Request, Response
from shared.adapters.azure_errors import from_answer
from shared.adapters.errors import NotFound, RetryLater, StaleWrite
from shared.adapters.protocols import Blob

Names = list[str]  # inside the class, `list` is its own method
Listed = list[tuple[str, str]]
_MISSING_CONTAINER = "ContainerNotFound"
_ITEM = re.compile(r"<Name>(.*?)</Name>.*?<Last-Modified>(.*?)</Last-Modified>")
_MARKER = re.compile(r"<NextMarker>(.*?)</NextMarker>")
_CODE = "x-ms-error-code"


class DirectBlobStore:
    """See `shared.adapters.protocols.BlobStore`. `prefix` is the account where it is a path's first segment."""

    def __init__(self, handler: Handler, timeline: Timeline, prefix: str = "") -> None:
        self._handler, self._timeline, self._prefix = handler, timeline, prefix

    def get(self, container: str, name: str) -> Blob:
        """See `BlobStore.get`."""
        return _blob(self._done("GET", container, name, f"reading blob {container}/{name}"))

    def get_if_changed(self, container: str, name: str, etag: str) -> Blob | None:
        """See `BlobStore.get_if_changed`."""
        guard = {"if-none-match": etag} if etag else {}
        answer = self._done("GET", container, name, f"reading blob {container}/{name}", guard)
        return None if answer.status == 304 else _blob(answer)

    def put(self, container: str, name: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        """See `BlobStore.put`."""
        guard = {"if-match": if_match} if if_match else {"if-none-match": "*"} if if_absent else {}
        doing = f"writing blob {container}/{name}"
        try:
            return self._done("PUT", container, name, doing, guard, data).headers["etag"]
        except NotFound as error:
            if error.code != _MISSING_CONTAINER:
                raise
        if if_match:
            raise StaleWrite(f"{doing}: it is not there any more", code=_MISSING_CONTAINER, status=404)
        self._done("PUT", container, "", f"creating container {container}", query={"restype": "container"})
        return self._done("PUT", container, name, doing, guard, data).headers["etag"]

    def delete(self, container: str, name: str) -> None:
        """See `BlobStore.delete`."""
        try:
            self._done("DELETE", container, name, f"deleting blob {container}/{name}")
        except NotFound:
            return

    def list(self, container: str, prefix: str = "") -> Names:
        """See `BlobStore.list`."""
        return [name for name, _ in self._listed(container, prefix)]

    def older(self, container: str, prefix: str, before: datetime) -> Names:
        """See `BlobStore.older`."""
        return [name for name, modified in self._listed(container, prefix) if parsedate_to_datetime(modified) < before]

    def _listed(self, container: str, prefix: str) -> Listed:
        """Names, and when they were written."""
        found: Listed = []
        query = {"restype": "container", "comp": "list", "prefix": prefix}
        while True:
            try:
                answer = self._done("GET", container, "", f"listing blobs of {container}", query=query)
            except NotFound:
                return []
            page = answer.body.decode()
            found += [(unescape(name), modified) for name, modified in _ITEM.findall(page)]
            marker = _MARKER.search(page)
            if marker is None or not marker[1]:
                return found
            query["marker"] = unescape(marker[1])

    def _done(
        self,
        method: str,
        container: str,
        name: str,
        doing: str,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        query: dict[str, str] | None = None,
    ) -> Response:
        path = f"{self._prefix}/{container}/{quote(name)}" if name else f"{self._prefix}/{container}"
        request = Request(method, path, query or {}, headers or {}, body)
        with self._timeline.lock:
            answer = self._handler.handle(request)
        if CONNECTION_LOST in answer.headers:
            raise RetryLater(f"{doing}: connection reset by peer")
        if answer.status >= 400:
            code = answer.headers.get(_CODE, "")
            raise from_answer(answer.status, code, code or f"HTTP {answer.status}", doing=doing)
        return answer


def _blob(answer: Response) -> Blob:
    return Blob(answer.body, answer.headers["etag"])
