"""The pools file, read again as it changes. A version that cannot be used is refused, the last good one stays."""

from __future__ import annotations

import logging
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from exporter.settings import SettingsError
from shared.adapters.errors import NotFound, OutsideError, Rejected, Unreachable
from shared.adapters.protocols import BlobStore
from shared.model import Config
from shared.names import CONFIG_CONTAINER
from shared.settings.config import ConfigError, parse_config

READ_EVERY_SECONDS = 30.0  # a mounted ConfigMap itself takes up to a minute to follow
FETCH_SECONDS = 10.0
BLOB_SCHEME = "blob:"

_log = logging.getLogger(__name__)


class Source(Protocol):
    """Where the file lies. Returns None while it is as it was; raises `OutsideError` when it cannot be read."""

    def __call__(self) -> bytes | None:
        """Read it, once."""
        ...


class FileSource:
    """A path; compared by content, since a ConfigMap's files are swapped by a link and keep odd times."""

    def __init__(self, path: str) -> None:
        self._path, self._last = Path(path), b""

    def __call__(self) -> bytes | None:
        """See `Source`."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError as error:
            raise NotFound(f"pools file {self._path}: there is no such file; name it with --pools") from error
        except OSError as error:
            raise Rejected(
                f"pools file {self._path}: cannot be read: {error.strerror}; name another with --pools"
            ) from error
        changed, self._last = data != self._last, data
        return data if changed else None


class UrlSource:
    """An http(s) address, asked with the ETag of the last answer."""

    def __init__(self, url: str, open_url: Callable[..., Any] = urllib.request.urlopen) -> None:
        self._url, self._etag, self._open = url, "", open_url

    def __call__(self) -> bytes | None:
        """See `Source`."""
        headers = {"If-None-Match": self._etag} if self._etag else {}
        request = urllib.request.Request(self._url, headers=headers)  # noqa: S310 - http(s) only, see `source_of`
        try:
            with self._open(request, timeout=FETCH_SECONDS) as response:
                self._etag = response.headers.get("ETag", "")
                data: bytes = response.read()
        except urllib.error.HTTPError as error:
            if error.code == 304:
                return None
            raise NotFound(f"pools file {self._url}: answered {error.code}; check the address") from error
        except OSError as error:
            raise Unreachable(f"pools file {self._url}: nothing answered ({error})") from error
        return data


class BlobSource:
    """`config/<cluster>.yaml` in the app's storage, where the functions read it too."""

    def __init__(self, store: BlobStore, cluster: str) -> None:
        self._store, self._name, self._etag = store, f"{cluster}.yaml", ""

    def __call__(self) -> bytes | None:
        """See `Source`."""
        blob = self._store.get_if_changed(CONFIG_CONTAINER, self._name, self._etag)
        if blob is None:
            return None
        self._etag = blob.etag
        return blob.data


def source_of(place: str, store: BlobStore | None) -> Source:
    """A path, an http(s) URL, or `blob:<cluster>`. Raises SettingsError when that needs a storage and none is given."""
    if place.startswith(("http://", "https://")):
        return UrlSource(place)
    if not place.startswith(BLOB_SCHEME):
        return FileSource(place)
    if store is None:
        raise SettingsError([f"--pools {place}: needs --storage, the address of the storage account's blobs"])
    return BlobSource(store, place.removeprefix(BLOB_SCHEME))


class WatchedConfig:
    """Call it for the config in force; it looks at the source now and then. The first version must be good."""

    def __init__(self, source: Source, clock: Callable[[], datetime]) -> None:
        """Raises `OutsideError` or ConfigError when there is no usable file to begin with."""
        self._source, self._clock = source, clock
        self._config = parse_config(source() or b"")
        self._next = clock() + timedelta(seconds=READ_EVERY_SECONDS)
        self._unread, self._refused = "", ""

    @property
    def problem(self) -> str:
        """Why the file cannot be read just now, or what is wrong with the version that was refused; "" when all is
        well."""
        return self._unread or self._refused

    def __call__(self) -> Config:
        """The last good version."""
        if self._clock() >= self._next:
            self._next = self._clock() + timedelta(seconds=READ_EVERY_SECONDS)
            self._look()
        return self._config

    def _look(self) -> None:
        try:
            data = self._source()
        except OutsideError as error:
            if str(error) != self._unread:
                _log.error("the pools file cannot be read, the last good one stays in force: %s", error)
            self._unread = str(error)
            return
        self._unread = ""
        if data is not None:
            self._take(data)

    def _take(self, data: bytes) -> None:
        try:
            config = parse_config(data)
        except ConfigError as error:
            self._refuse("; ".join(str(problem) for problem in error.problems))
            return
        if config.cluster != self._config.cluster:
            self._refuse(f"cluster: became {config.cluster!r}; restart the exporter to serve another cluster")
            return
        self._config, self._refused = config, ""
        _log.info("a new pools file is in force")

    def _refuse(self, problem: str) -> None:
        if problem != self._refused:
            _log.error("the pools file is refused, the last good one stays in force: %s", problem)
        self._refused = problem
