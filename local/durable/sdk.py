"""Small changes to azure-functions-durable for the local host only; production runs the packages as they are.

The host drives the SDK's own handlers thousands of times a second, where parsing timestamps with dateutil takes most
of the time, and making the same namedtuple class and JSON coders anew much of the rest. `prepare` is idempotent; a
contract test holds each change against the original.
"""

from __future__ import annotations

import functools
import importlib
import json
import logging
from collections import namedtuple
from collections.abc import Callable
from datetime import datetime
from typing import Any

import orjson

_log = logging.getLogger(__name__)


class _Notices:
    """Stands in for the `warnings` module inside the SDK's executor.

    The only warning there is about an event that nobody waits for yet, which is ordinary: it is kept for later.
    """

    def warn(self, message: str) -> None:
        _log.debug("%s", message)


class Json:
    """Stands in for the `json` module inside the SDK's codec: the same coders, made once."""

    JSONDecodeError = json.JSONDecodeError

    @staticmethod
    def dumps(value: object, *, default: Callable[[Any], Any] | None = None) -> str:
        """As json.dumps."""
        return _encoder(default)(value)

    @staticmethod
    def loads(text: str | bytes, *, object_hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:  # noqa: ANN401
        """As json.loads, which also takes bytes. The SDK's hook does nothing where no object names its class."""
        text = text if isinstance(text, str) else text.decode()
        if object_hook is None or "__class__" in text:
            return _decoder(object_hook)(text)
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:  # of what Python alone takes for JSON, such as Infinity
            return _decoder(object_hook)(text)


@functools.cache
def _encoder(default: Callable[[Any], Any] | None) -> Callable[[object], str]:
    return json.JSONEncoder(default=default).encode


@functools.cache
def _decoder(hook: Callable[[dict[str, Any]], Any] | None) -> Callable[[str], Any]:
    return json.JSONDecoder(object_hook=hook).decode


def prepare() -> None:
    """Apply the changes to the installed packages."""
    events: Any = importlib.import_module("azure.durable_functions.models.history.HistoryEvent")
    executor: Any = importlib.import_module("azure.durable_functions.models.TaskOrchestrationExecutor")
    codec: Any = importlib.import_module("azure.functions._durable_functions")
    events.dt_parse = datetime.fromisoformat
    executor.warnings = _Notices()
    executor.namedtuple = functools.cache(namedtuple)
    codec.json = Json
    codec._is_strict_mode = functools.cache(_original_strict_mode(codec))  # the environment does not change under us
    codec._no_expected_type_notice_emitted = True  # advice on strict typing, given once per process, as a warning


def _original_strict_mode(codec: Any) -> Callable[[], bool]:  # noqa: ANN401 - a module
    strict: Callable[[], bool] = codec._is_strict_mode
    return getattr(strict, "__wrapped__", strict)
