"""What the local host changes in the SDK gives the results of the original."""

from __future__ import annotations

import importlib
import json
import warnings
from collections import namedtuple
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.functions import _durable_functions as codec
from dateutil.parser import parse
from hypothesis import given
from hypothesis import strategies as st

from local.durable import history, sdk
from local.functions_host import FunctionsHost
from local.timeline import EPOCH, VirtualTimeline

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class Point:
    """A custom object of the SDK's convention."""

    def __init__(self, x: int) -> None:
        self.x = x

    def to_json(self) -> dict[str, int]:
        return {"x": self.x}


@given(st.datetimes(timezones=st.just(UTC)))
def test_timestamps_are_read_as_dateutil_reads_them(moment: datetime):
    text = history.stamp(moment)
    ours, theirs = datetime.fromisoformat(text), parse(text)
    assert (ours, ours.utcoffset(), str(ours)) == (theirs, theirs.utcoffset(), str(theirs))
    assert ours == moment


def test_seven_digits_of_a_second_as_dotnet_writes_them_are_read_alike():
    text = "2026-01-02T03:04:05.1234567Z"
    assert datetime.fromisoformat(text) == parse(text)


@given(VALUES)
def test_json_is_written_and_read_as_by_the_standard_library(value: object):
    text = json.dumps(value, default=codec._serialize_custom_object)
    assert sdk.Json.dumps(value, default=codec._serialize_custom_object) == text
    hook = codec._deserialize_custom_object
    assert sdk.Json.loads(text, object_hook=hook) == json.loads(text, object_hook=hook)
    assert sdk.Json.loads(text.encode()) == json.loads(text)


def test_custom_objects_keep_their_envelope():
    expected = json.dumps({"at": [Point(1)]}, default=codec._serialize_custom_object)
    assert codec.df_dumps({"at": [Point(1)]}) == expected


def test_what_is_no_json_raises_the_same_error():
    with pytest.raises(json.JSONDecodeError):
        sdk.Json.loads("{")


@pytest.mark.parametrize(("name", "value"), [("chain", 4), ("fan_out", 3), ("adding", 2), ("polling", None)])
def test_the_original_sdk_answers_the_same_histories_with_the_same_actions(
    host: FunctionsHost, timeline: VirtualTimeline, monkeypatch: pytest.MonkeyPatch, name: str, value: object
):
    asked: list[tuple[str, str]] = []
    handle = host.orchestrators[name]

    def noting(context: str) -> str:
        asked.append((context, answer := handle(context)))
        return answer

    host.index.orchestrators[name] = noting
    host.client_start(name, value, "a")
    timeline.run(EPOCH + timedelta(hours=1))
    assert host.instance("a").status == "Completed"
    put_back_the_originals(monkeypatch)
    for context, answer in asked:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert handle(context) == answer


def put_back_the_originals(monkeypatch: pytest.MonkeyPatch) -> None:
    events: Any = importlib.import_module("azure.durable_functions.models.history.HistoryEvent")
    executor: Any = importlib.import_module("azure.durable_functions.models.TaskOrchestrationExecutor")
    monkeypatch.setattr(events, "dt_parse", parse)
    monkeypatch.setattr(executor, "namedtuple", namedtuple)
    monkeypatch.setattr(executor, "warnings", warnings)
    monkeypatch.setattr(codec, "json", json)
    monkeypatch.setattr(codec, "_is_strict_mode", codec._is_strict_mode.__wrapped__)
