"""The pools file may change while the exporter runs, and may be wrong."""

from __future__ import annotations

import urllib.error
from datetime import datetime
from email.message import Message
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from exporter.config_source import BlobSource, FileSource, UrlSource, WatchedConfig, source_of
from shared.adapters.errors import NotFound, Unreachable
from shared.names import CONFIG_CONTAINER
from shared.settings.config import ConfigError
from tests.exporter.fakes import FakeStore, at

GOOD = b"cluster: training\npools: [{name: cpu, max: 5, shape: {cpu: 4, memory: 8Gi}}]\n"
OTHER_MAX = GOOD.replace(b"max: 5", b"max: 7")
BAD = GOOD.replace(b"max: 5", b"max: -1")


class Clock:
    def __init__(self) -> None:
        self.now = at(0)

    def __call__(self) -> datetime:
        return self.now


def scripted(*versions: Any) -> Any:
    """A source that gives these, one after the other; an exception is raised."""
    rest = list(versions)

    def read() -> bytes | None:
        step = rest.pop(0) if rest else None
        if isinstance(step, Exception):
            raise step
        return step

    return read


def test_a_changed_file_comes_into_force() -> None:
    clock = Clock()
    config = WatchedConfig(scripted(GOOD, OTHER_MAX), clock)
    assert config().pools[0].maximum == 5
    clock.now = at(30)
    assert config().pools[0].maximum == 7


def test_the_source_is_not_asked_at_every_call() -> None:
    clock = Clock()
    config = WatchedConfig(scripted(GOOD, OTHER_MAX), clock)
    clock.now = at(29)
    assert config() is config()
    assert config().pools[0].maximum == 5


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (BAD, "max"),
        (b"\x00: [", "file"),
        (GOOD.replace(b"training", b"other"), "restart the exporter"),
        (Unreachable("storage is down"), "storage is down"),
    ],
)
def test_an_unusable_version_is_refused_and_the_last_good_one_stays(step: Any, said: str) -> None:
    clock = Clock()
    config = WatchedConfig(scripted(GOOD, step, OTHER_MAX), clock)
    clock.now = at(30)
    assert config().pools[0].maximum == 5
    assert said in config.problem
    clock.now = at(60)
    assert config().pools[0].maximum == 7
    assert config.problem == ""


def test_a_source_that_was_away_for_a_while_is_no_problem_any_more() -> None:
    clock = Clock()
    config = WatchedConfig(scripted(GOOD, Unreachable("storage is down"), None), clock)
    clock.now = at(30)
    config()
    assert config.problem == "storage is down"
    clock.now = at(60)
    config()
    assert config.problem == ""


def test_a_refused_version_stays_refused_while_its_source_comes_and_goes() -> None:
    clock = Clock()
    config = WatchedConfig(scripted(GOOD, BAD, Unreachable("storage is down"), None), clock)
    for moment in (30, 60, 90):
        clock.now = at(moment)
        config()
    assert "pools[0].max" in config.problem


def test_a_first_version_that_is_wrong_stops_the_start() -> None:
    with pytest.raises(ConfigError):
        WatchedConfig(scripted(BAD), Clock())


def test_a_file_is_read_again_only_when_its_content_differs(tmp_path: Path) -> None:
    path = tmp_path / "pools.yaml"
    path.write_bytes(GOOD)
    source = FileSource(str(path))
    assert [source(), source()] == [GOOD, None]
    path.write_bytes(OTHER_MAX)
    assert source() == OTHER_MAX


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"nowhere\.yaml.*--pools"):
        FileSource(str(tmp_path / "nowhere.yaml"))()


class Page(BytesIO):
    def __init__(self, data: bytes, etag: str) -> None:
        super().__init__(data)
        self.headers = {"ETag": etag}


def test_an_address_is_asked_with_the_etag_of_the_last_answer() -> None:
    asked: list[str | None] = []

    def open_url(request: Any, **_options: float) -> Page:
        asked.append(request.get_header("If-none-match"))
        if asked[-1] == '"1"':
            raise urllib.error.HTTPError(request.full_url, 304, "not modified", Message(), None)
        return Page(GOOD, '"1"')

    source = UrlSource("https://example.org/pools.yaml", open_url)
    assert [source(), source()] == [GOOD, None]
    assert asked == [None, '"1"']


def test_an_address_that_does_not_answer_is_named() -> None:
    def refuse(request: Any, **_options: float) -> Page:
        raise urllib.error.URLError("refused")

    with pytest.raises(Unreachable, match=r"https://example\.org/pools\.yaml"):
        UrlSource("https://example.org/pools.yaml", refuse)()


def test_a_blob_is_read_by_etag() -> None:
    store = FakeStore()
    store.put(CONFIG_CONTAINER, "training.yaml", GOOD)
    source = source_of("blob:training", store)
    assert isinstance(source, BlobSource)
    assert [source(), source()] == [GOOD, None]


def test_a_blob_needs_a_storage() -> None:
    with pytest.raises(ValueError, match="--storage"):
        source_of("blob:training", None)
