"""Resources that the stand-in only shows: whoever put them there keeps their truth, and nothing is written to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from local.arm.routing import Route
from local.web import Response

Show = Callable[[], Any]


class Documents:
    """By method and path, whose case does not matter; a list is shown as ARM shows lists."""

    def __init__(self) -> None:
        self._shown: dict[str, Show] = {}

    def show(self, path: str, show: Show, method: str = "GET") -> None:
        """Answer requests for `path` with what `show` returns then, a dict or a list."""
        self._shown[_key(method, path)] = show

    def hide(self, path: str, method: str = "GET") -> None:
        """It is not there any more."""
        self._shown.pop(_key(method, path), None)

    def route(self, method: str, path: str) -> Route | None:
        """Who answers, by the name that faults go by."""
        show = self._shown.get(_key(method, path))
        return Route("document.get", lambda _: _answer(show())) if show is not None else None


def _answer(value: Any) -> Response:  # noqa: ANN401 - JSON
    return Response.of_json(200, {"value": value} if isinstance(value, list) else value)


def _key(method: str, path: str) -> str:
    return f"{method} {path.rstrip('/').lower()}"
