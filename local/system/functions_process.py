"""The process that hosts the Function App: the app as in Azure, its journal in a file, its outside over HTTP.

It may be killed at any moment; the next one goes on from the journal.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from pathlib import Path

from functions.app import create_app
from local.durable.journal import SqliteJournal
from local.errors import DONE, UserError
from local.functions_host import FunctionsHost
from local.http_server import serve
from local.system.endpoints import FUNCTIONS_PORT, Endpoints
from local.system.services import services_over_http
from local.timeline import WallTimeline
from local.web import Request, Response


def main() -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for noisy in ("azure", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        return _serve(given.state, given.port)
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


class _Door:
    """Listens before the host is there, since the host must know its own address; 503 until then."""

    def __init__(self) -> None:
        self.host: FunctionsHost | None = None

    def handle(self, request: Request) -> Response:
        """See `local.web.Handler`."""
        return self.host.handle(request) if self.host is not None else Response(503)


def _serve(state: Path, port: int) -> int:
    stop, door = threading.Event(), _Door()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with serve(door, port=port) as server:
        timeline = WallTimeline()
        app = create_app(services_over_http(Endpoints.read(state / "endpoints.json")))
        journal = SqliteJournal(state / "journal.sqlite")
        door.host = FunctionsHost(app, timeline, journal=journal, base_url=server.url)
        _announce(state / FUNCTIONS_PORT, server.port)
        stop.wait()
        door.host.close()
    return DONE


def _announce(path: Path, port: int) -> None:
    part = path.with_suffix(".part")
    part.write_text(str(port))
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main())
