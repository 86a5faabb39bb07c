"""`ClusterApi` on the official client: its configuration, TLS and connection pool, but raw JSON, no model objects.

A model object costs some hundred times what its JSON costs; a list of 15,000 pods must not. urllib3's own retries are
off, since a write that was sent twice behind our back would break the guards that callers rely on: only GETs are
repeated, here, a few times and briefly.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from kubernetes.client import ApiClient, ApiException
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NameResolutionError, ReadTimeoutError

from shared.adapters.app_access import NO_TOKEN, client_for_app
from shared.adapters.errors import (
    Expired,
    NotFound,
    OutsideError,
    Refused,
    Rejected,
    RetryLater,
    StaleWrite,
    Throttled,
    Unreachable,
)
from shared.adapters.kubernetes_access import CONNECTIONS, client_from_kubeconfig, client_in_cluster
from shared.adapters.protocols import Json, JsonPatch

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

PAGE_SIZE = 500
"""Objects per page of a list, kubectl's own default: the server never holds more than one page of JSON for us."""

GET_ATTEMPTS = 3
"""How often a GET is tried in all before its error is the caller's."""

_Items = list[Json]  # within the class, `list` is its method
_Answers = list[OutsideError | None]
_Objects = list[Json | OutsideError]

_MERGE_PATCH = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_BRIEF = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"  # nobody reads what a bulk patch left behind
_CHUNK_BYTES = 1 << 16
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `connect`: an API server that takes longer to accept is taken for gone. `read`: the longest silence
    within an answer; one page of a big list comes well within. `watch_slack`: what a watch may be silent beyond its
    own time-out, for the server's last word to arrive."""

    connect: float = 5.0
    read: float = 30.0
    watch_slack: float = 15.0


class KubernetesClusterApi:
    """One API server through one `ApiClient`. Safe to share between threads, as the client is.

    `sleep` waits between the attempts of a GET; the simulator hands in its own. `parallel`: how many requests of
    `get_each` and `patch_each` are on their way at a time.
    """

    def __init__(
        self,
        api_client: ApiClient,
        *,
        timeouts: Timeouts | None = None,
        sleep: Callable[[float], None] = time.sleep,
        parallel: int = CONNECTIONS,
    ) -> None:
        self._client, self._parallel = api_client, parallel
        self._timeouts = timeouts or Timeouts()
        self._retrying = Retrying(
            retry=retry_if_exception(_worth_repeating),
            stop=stop_after_attempt(GET_ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.2, max=2.0),
            sleep=sleep,
            reraise=True,
        )

    @classmethod
    def from_kubeconfig(cls, source: str, context: str | None = None) -> KubernetesClusterApi:
        """From a kubeconfig's path or its text. Raises Rejected with one clear line when it cannot be used."""
        return cls(client_from_kubeconfig(source, context))

    @classmethod
    def for_app(cls, text: str, credential: Callable[[], TokenCredential], place: str) -> KubernetesClusterApi:
        """As the function app, by a kubeconfig's text: see `client_for_app`. Raises Rejected."""
        return cls(client_for_app(text, credential, place))

    @classmethod
    def in_cluster(cls) -> KubernetesClusterApi:
        """From the service account of the pod that this runs in. Raises Rejected outside of one."""
        return cls(client_in_cluster())

    def close(self) -> None:
        """Give the pooled connections back."""
        self._client.close()

    def list(self, path: str, *, field_selector: str = "", label_selector: str = "") -> tuple[_Items, str]:
        """See `ClusterApi.list`. A page token that expired on the way starts the list anew, once and unpaged."""
        selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
        query = {name: value for name, value in selectors.items() if value}
        try:
            return self._pages(path, {**query, "limit": str(PAGE_SIZE)})
        except Expired:
            return self._pages(path, query)

    def watch(self, path: str, resource_version: str, *, timeout_seconds: int) -> Iterator[Json]:
        """See `ClusterApi.watch`. A stream that breaks off raises Unreachable; resume from the last version seen."""
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_seconds),
        }
        what = f"watch {path}"
        response = self._send(
            "GET", path, query, read_timeout=timeout_seconds + self._timeouts.watch_slack, what=what, stream=True
        )
        try:
            for line in _lines(response, what):
                event: Json = orjson.loads(line)
                if event["type"] == "ERROR":
                    raise _error_of(event["object"].get("code", 500), event["object"], {}, what)
                yield event
        finally:
            response.close()

    def get(self, path: str) -> Json:
        """See `ClusterApi.get`."""
        return self._retrying(self._call, "GET", path)

    def get_each(self, paths: Sequence[str]) -> _Objects:
        """See `ClusterApi.get_each`."""
        if self._parallel == 1 or len(paths) < 2:
            return [self._get_or_why(path) for path in paths]
        with ThreadPoolExecutor(min(self._parallel, len(paths)), "get") as threads:
            return list(threads.map(self._get_or_why, paths))

    def _get_or_why(self, path: str) -> Json | OutsideError:
        try:
            return self.get(path)
        except OutsideError as error:
            return error

    def create(self, path: str, body: Json) -> Json:
        """See `ClusterApi.create`."""
        return self._call("POST", path, body=body)

    def replace(self, path: str, body: Json) -> Json:
        """See `ClusterApi.replace`."""
        return self._call("PUT", path, body=body)

    def patch(self, path: str, body: Json) -> Json:
        """See `ClusterApi.patch`."""
        return self._call("PATCH", path, body=body, content_type=_MERGE_PATCH)

    def patch_each(self, patches: Sequence[JsonPatch]) -> _Answers:
        """See `ClusterApi.patch_each`."""
        if self._parallel == 1 or len(patches) < 2:
            return [self._json_patch(each) for each in patches]
        with ThreadPoolExecutor(min(self._parallel, len(patches)), "patch") as threads:
            return list(threads.map(self._json_patch, patches))

    def _json_patch(self, patch: JsonPatch) -> OutsideError | None:
        what, body = f"patch {patch.path}", list(patch.operations)
        try:
            answer = self._send("PATCH", patch.path, {}, what=what, body=body, content_type=_JSON_PATCH)
            _read(answer, what)  # gives the connection back
        except OutsideError as error:
            return error
        return None

    def delete(self, path: str, *, uid: str = "", grace_seconds: int | None = None) -> None:
        """See `ClusterApi.delete`."""
        self._call("DELETE", path, body={"kind": "DeleteOptions", "apiVersion": "v1", **_options(uid, grace_seconds)})

    def evict(self, namespace: str, name: str, uid: str, *, grace_seconds: int | None = None) -> None:
        """See `ClusterApi.evict`."""
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}/eviction"
        body: Json = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _options(uid, grace_seconds),
        }
        self._call("POST", path, body=body)

    def _pages(self, path: str, query: Mapping[str, str]) -> tuple[_Items, str]:
        items: _Items = []
        page = self._retrying(self._call, "GET", path, query, verb="list")
        version: str = page["metadata"].get("resourceVersion", "")
        items += page.get("items") or []
        while token := page["metadata"].get("continue"):
            page = self._retrying(self._call, "GET", path, {**query, "continue": token}, verb="list")
            items += page.get("items") or []
        return items, version

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Json | None = None,
        content_type: str = "application/json",
        verb: str = "",
    ) -> Json:
        what = f"{verb or _VERBS[method]} {path}"
        response = self._send(method, path, query or {}, what=what, body=body, content_type=content_type)
        return _object(_read(response, what), self._client.configuration.host, what)

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        what: str,
        body: Json | _Items | None = None,
        content_type: str = "",
        read_timeout: float | None = None,
        stream: bool = False,
    ) -> Any:  # noqa: ANN401 - the urllib3 response, or the stand-in's of the same shape
        url = self._client.configuration.host + path + ("?" + _query(query) if query else "")
        timeout = (self._timeouts.connect, read_timeout or self._timeouts.read)
        try:
            headers = self._headers(path, method, content_type if body is not None else "", stream=stream)
            answer = self._client.call_api(method, url, headers, body=body, _request_timeout=timeout)
        except (HTTPError, ApiException, OSError) as error:
            raise _unreachable(self._client.configuration.host, what, error) from error
        if not 200 <= answer.status < 300:
            raise _error_of(answer.status, _status(_read(answer.response, what)), answer.headers, what)
        return answer.response

    def _headers(self, path: str, method: str, content_type: str, *, stream: bool) -> dict[str, str]:
        accept = _BRIEF if content_type == _JSON_PATCH else "application/json"
        headers: dict[str, str] = {"Accept": accept, **self._client.default_headers}
        if content_type:
            headers["Content-Type"] = content_type
        if method == "GET" and not stream:
            headers["Accept-Encoding"] = "gzip"  # the server compresses what is large, such as a page of pods
        self._client.update_params_for_auth(headers, None, ["BearerToken"], path, method, None)
        return headers


def _worth_repeating(error: BaseException) -> bool:
    return isinstance(error, RetryLater) and not isinstance(error, Throttled) and error.code not in _AS_BAD_AT_ONCE


def _options(uid: str, grace_seconds: int | None) -> Json:
    options: Json = {}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options


def _query(query: Mapping[str, str]) -> str:
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())


def _read(response: Any, what: str) -> bytes:  # noqa: ANN401 - see _send
    try:
        data: bytes = response.data
    except (HTTPError, OSError) as error:
        raise Unreachable(f"{what}: the connection broke off while the answer was read: {error}") from error
    return data


def _object(body: bytes, host: str, what: str) -> Json:
    """Every answer of an API server is an object with its kind; a proxy's page or another server's answer is not."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict) or "kind" not in answer:
        raise Unreachable(f"{what}: what answers at {host} is no API server")
    found: Json = answer
    return found


def _lines(response: Any, what: str) -> Iterator[bytes]:  # noqa: ANN401 - see _send
    rest = b""
    try:
        for chunk in response.stream(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from filter(None, lines)
    except (HTTPError, OSError) as error:
        raise Unreachable(f"{what}: the stream broke off: {error}") from error


def _status(body: bytes) -> Json:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {"message": body[:200].decode(errors="replace")}
    return status if isinstance(status, dict) else {"message": str(status)}


def _unreachable(host: str, what: str, error: Exception) -> Unreachable:
    """With a code for what stood in the way, as far as it can be told."""
    cause = error.reason if isinstance(error, ApiException) else error
    said, code = " ".join(str(cause).split()), _obstacle(error)
    if code == UNTRUSTED:
        return Unreachable(
            f"{what}: {host} is not trusted, and was told nothing: its certificate does not stand the test against the "
            f"cluster's CA: {said}: take certificate-authority-data anew from the cluster, and see that the address is "
            "the cluster's own",
            code=code,
        )
    return Unreachable(f"{what}: no answer from {host}: {said}", code=code)


def _obstacle(error: BaseException) -> str:
    """By all the errors behind an error; urllib3 keeps its own reasons beside Python's chain."""
    behind: list[BaseException] = [error]
    for each in behind:  # grows as it is gone through
        reasons = (getattr(each, "reason", None), each.__cause__, each.__context__, *each.args)
        behind += [one for one in reasons if isinstance(one, BaseException) and one not in behind]
    return next((code for family, code in _OBSTACLES if any(isinstance(each, family) for each in behind)), "")


UNTRUSTED = "CertificateNotTrusted"
NO_NAME = "NameNotResolved"
NO_PORT = "ConnectionRefused"
SILENT = "TimedOut"
_OBSTACLES: tuple[tuple[type[BaseException], str], ...] = (
    (ssl.SSLCertVerificationError, UNTRUSTED),
    (NameResolutionError, NO_NAME),
    (socket.gaierror, NO_NAME),
    (ConnectionRefusedError, NO_PORT),
    (ConnectTimeoutError, SILENT),
    (ReadTimeoutError, SILENT),
    (TimeoutError, SILENT),
)
_AS_BAD_AT_ONCE = frozenset({UNTRUSTED, NO_TOKEN})  # another try a moment later would end the same


_GRANT = (
    ": upgrade the release of the chart sluice-exporter, whose roles have all that is needed, and see that they name it"
)
_BY_STATUS: Mapping[int, type[OutsideError]] = {
    401: Refused,
    403: Refused,
    404: NotFound,
    409: StaleWrite,
    410: Expired,
    412: StaleWrite,
}


def _error_of(code: int, status: Json, headers: Mapping[str, str], what: str) -> OutsideError:
    """The error tree's word for a Status; a 429 may be a flood control or an eviction against a budget."""
    reason = str(status.get("reason") or "")
    message = f"{what}: {status.get('message') or reason or f'HTTP {code}'}"
    if code == 403 and " cannot " in message and " in API group " in message:
        message += _GRANT
    if code in _BY_STATUS:
        return _BY_STATUS[code](message, code=reason, status=code)
    if code == 429 or code >= 500:
        kind = Throttled if code == 429 else RetryLater
        return kind(message, code=reason, status=code, retry_after=_retry_after(status, headers))
    return Rejected(message, code=reason, status=code)


def _retry_after(status: Json, headers: Mapping[str, str]) -> float | None:
    said = headers.get("Retry-After") or (status.get("details") or {}).get("retryAfterSeconds")
    try:
        return float(said) if said else None
    except (TypeError, ValueError):  # a date, which a proxy may send: then the caller's own wait is as good
        return None
