"""A storage account's Blob service as a stand-in: block blobs, ETag guards, ranges, flat lists.

Both address styles work: the account as host (https://<account>.blob.core.windows.net/container/blob) and as first path
segment (http://127.0.0.1:port/devstoreaccount1/container/blob). With a directory, blobs survive the process.
"""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

from local.timeline import Timeline
from local.web import Request, Response

ACCOUNT = "devstoreaccount1"
PAGE = 5000  # the service's own maximum per list page
VERSION = "2025-11-05"
_MESSAGES = {
    "BlobAlreadyExists": "The specified blob already exists.",
    "BlobNotFound": "The specified blob does not exist.",
    "ConditionNotMet": "The condition specified using HTTP conditional header(s) is not met.",
    "ContainerAlreadyExists": "The specified container already exists.",
    "ContainerNotFound": "The specified container does not exist.",
    "InvalidRange": "The range specified is invalid for the current size of the resource.",
    "UnsupportedHttpVerb": "The resource does not support the specified HTTP verb here.",
}


class _Refusal(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """One blob as it lies there."""

    data: bytes
    etag: str
    modified: datetime
    content_type: str


class BlobStandIn:
    """One storage account. `containers` is the ground truth: container -> name -> blob."""

    def __init__(self, timeline: Timeline, *, directory: Path | None = None, account: str = ACCOUNT) -> None:
        self._timeline, self._directory, self._account = timeline, directory, account
        self._version = 0  # of the last write; only grows, also over restarts, so that no ETag comes twice
        self.requests = 0
        self.containers: dict[str, dict[str, StoredBlob]] = {}
        if directory is not None:
            self._load(directory)

    def handle(self, request: Request) -> Response:
        """See `local.web.Handler`."""
        self.requests += 1
        try:
            return self._answer(request)
        except _Refusal as refusal:
            return _refused(refusal, head=request.method == "HEAD")

    def _answer(self, request: Request) -> Response:
        container, _, name = self._path(request.path).partition("/")
        if not name:
            return self._container_call(request, container)
        if request.method == "PUT":
            return self._put(request, self._blobs(container), container, name)
        if request.method in {"GET", "HEAD"}:
            return self._get(request, self._existing(container, name))
        if request.method == "DELETE":
            return self._delete(request, container, name)
        raise _Refusal(405, "UnsupportedHttpVerb")

    def _container_call(self, request: Request, container: str) -> Response:
        if request.method == "PUT":
            if container in self.containers:
                raise _Refusal(409, "ContainerAlreadyExists")
            self.containers[container] = {}
            self._persist_container(container)
            return self._reply(201)
        if request.method == "GET" and request.query.get("comp") == "list":
            return self._list(request, container)
        if request.method in {"GET", "HEAD"}:
            self._blobs(container)
            return self._reply(200)
        if request.method == "DELETE":
            for name in list(self._blobs(container)):
                self._forget(container, name)
            del self.containers[container]
            return self._reply(202)
        raise _Refusal(405, "UnsupportedHttpVerb")

    def _put(self, request: Request, blobs: dict[str, StoredBlob], container: str, name: str) -> Response:
        there = blobs.get(name)
        _check_write(request, there)
        now = self._timeline.now()
        self._version = max(self._version + 1, int(now.timestamp() * 1e6) << 12)
        etag = f'"0x{self._version:X}"'
        kind = request.headers.get("x-ms-blob-content-type", "application/octet-stream")
        blob = StoredBlob(request.body, etag, now, kind)
        blobs[name] = blob
        self._persist(container, name, blob)
        return self._reply(201, _properties(blob))

    def _get(self, request: Request, blob: StoredBlob) -> Response:
        if _matches(request.headers.get("if-none-match", ""), blob):
            return self._reply(304, {"etag": blob.etag, "x-ms-error-code": "ConditionNotMet"})
        if_match = request.headers.get("if-match", "")
        if if_match and not _matches(if_match, blob):
            raise _Refusal(412, "ConditionNotMet")
        headers = {**_properties(blob), "content-type": blob.content_type, "x-ms-blob-type": "BlockBlob"}
        if request.method == "HEAD":
            return self._reply(200, {**headers, "content-length": str(len(blob.data))})
        asked = request.headers.get("x-ms-range") or request.headers.get("range")
        if asked is None:
            return self._reply(200, headers, blob.data)
        start, end = _range(asked, len(blob.data))
        headers["content-range"] = f"bytes {start}-{end}/{len(blob.data)}"
        return self._reply(206, headers, blob.data[start : end + 1])

    def _delete(self, request: Request, container: str, name: str) -> Response:
        blob = self._existing(container, name)
        if_match = request.headers.get("if-match", "")
        if if_match and not _matches(if_match, blob):
            raise _Refusal(412, "ConditionNotMet")
        self._forget(container, name)
        return self._reply(202)

    def _list(self, request: Request, container: str) -> Response:
        prefix, marker = request.query.get("prefix", ""), request.query.get("marker", "")
        size = min(int(request.query.get("maxresults", PAGE)), PAGE)
        names = sorted(name for name in self._blobs(container) if name.startswith(prefix) and name >= marker)
        following = names[size] if len(names) > size else ""
        items = "".join(_item(name, self.containers[container][name]) for name in names[:size])
        body = (
            f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="{escape(container)}">'
            f"<Prefix>{escape(prefix)}</Prefix><Blobs>{items}</Blobs><NextMarker>{escape(following)}</NextMarker>"
            "</EnumerationResults>"
        )
        return self._reply(200, {"content-type": "application/xml"}, body.encode())

    def _reply(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> Response:
        common = {"x-ms-version": VERSION, "x-ms-request-id": f"{self.requests:032x}"}
        return Response(status, {**common, **(headers or {})}, body)

    def _path(self, path: str) -> str:
        plain = unquote(path).lstrip("/")
        return plain.removeprefix(f"{self._account}/")

    def _blobs(self, container: str) -> dict[str, StoredBlob]:
        blobs = self.containers.get(container)
        if blobs is None:
            raise _Refusal(404, "ContainerNotFound")
        return blobs

    def _existing(self, container: str, name: str) -> StoredBlob:
        blob = self._blobs(container).get(name)
        if blob is None:
            raise _Refusal(404, "BlobNotFound")
        return blob

    def _forget(self, container: str, name: str) -> None:
        del self.containers[container][name]
        if self._directory is not None:
            self._file(self._directory, container, name).unlink(missing_ok=True)

    def _persist_container(self, container: str) -> None:
        if self._directory is not None:
            (self._directory / container).mkdir(parents=True, exist_ok=True)

    def _persist(self, container: str, name: str, blob: StoredBlob) -> None:
        """By rename, so that a killed process leaves the old blob or the new one, never half of one."""
        if self._directory is None:
            return
        final = self._file(self._directory, container, name)
        draft = final.with_suffix(".draft")
        head = f"{blob.etag}\n{blob.modified.isoformat()}\n{blob.content_type}\n".encode()
        draft.write_bytes(head + blob.data)
        os.replace(draft, final)  # noqa: PTH105 - the point is the atomic rename

    def _load(self, directory: Path) -> None:
        for folder in sorted(path for path in directory.glob("*") if path.is_dir()):
            blobs = self.containers.setdefault(folder.name, {})
            for file in sorted(folder.glob("*.blob")):
                etag, modified, kind, data = file.read_bytes().split(b"\n", 3)
                moment = datetime.fromisoformat(modified.decode())
                self._version = max(self._version, int(etag.strip(b'"'), 16))
                blobs[unquote(file.stem)] = StoredBlob(data, etag.decode(), moment, kind.decode())

    @staticmethod
    def _file(directory: Path, container: str, name: str) -> Path:
        return directory / container / f"{quote(name, safe='')}.blob"


def _check_write(request: Request, there: StoredBlob | None) -> None:
    if request.headers.get("if-none-match") == "*" and there is not None:
        raise _Refusal(409, "BlobAlreadyExists")
    if_match = request.headers.get("if-match", "")
    if if_match and (there is None or not _matches(if_match, there)):
        raise _Refusal(412, "ConditionNotMet")


def _matches(condition: str, blob: StoredBlob) -> bool:
    return bool(condition) and condition in {"*", blob.etag}


def _range(text: str, size: int) -> tuple[int, int]:
    """First and last byte, the last one cut to the blob's end. Raises InvalidRange beyond it."""
    first, _, last = text.removeprefix("bytes=").partition("-")
    start, end = int(first), min(int(last) if last else size - 1, size - 1)
    if start >= size:
        raise _Refusal(416, "InvalidRange")
    return start, end


def _properties(blob: StoredBlob) -> dict[str, str]:
    digest = base64.b64encode(hashlib.md5(blob.data, usedforsecurity=False).digest()).decode()
    return {
        "etag": blob.etag,
        "last-modified": format_datetime(blob.modified, usegmt=True),
        "content-md5": digest,
        "x-ms-server-encrypted": "true",
    }


def _item(name: str, blob: StoredBlob) -> str:
    modified = format_datetime(blob.modified, usegmt=True)
    return (
        f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{modified}</Last-Modified>"
        f"<Etag>{escape(blob.etag)}</Etag><Content-Length>{len(blob.data)}</Content-Length>"
        f"<Content-Type>{escape(blob.content_type)}</Content-Type><BlobType>BlockBlob</BlobType></Properties></Blob>"
    )


def _refused(refusal: _Refusal, *, head: bool) -> Response:
    headers = {"x-ms-error-code": refusal.code, "x-ms-version": VERSION, "content-type": "application/xml"}
    text = _MESSAGES[refusal.code]
    body = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{refusal.code}</Code><Message>{text}</Message></Error>'
    return Response(refusal.status, headers, b"" if head else body.encode())
