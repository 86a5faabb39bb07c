"""Commands that ask a running app."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from local import cli
from local.http_server import serve
from local.web import Handler

Sluice = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sluice(capsys: pytest.CaptureFixture[str]) -> Iterator[Sluice]:
    """Runs `sluice COMMAND` against a handler that is served over HTTP: the code, and both outputs."""

    def ask(handler: Handler, command: str, *more: str) -> tuple[int, str, str]:
        with serve(handler) as server:
            code = cli.main([command, "--url", server.url, *more])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return ask
