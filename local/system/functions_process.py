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

from functions import app as function_app
from local.durable import versions
from local.errors import DONE, UserError
from local.functions_host import HostOptions, serve_host
from local.system.endpoints import FUNCTIONS_PORT, Endpoints
from local.system.services import services_over_http


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


def _serve(state: Path, port: int) -> int:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    app = function_app.create_app(services_over_http(Endpoints.read(state / "endpoints.json")))
    options = HostOptions(version=versions.of_tree(Path(function_app.__file__).resolve().parents[1]))
    server = serve_host(app, port=port, journal_path=state / "journal.sqlite", options=options)
    _announce(state / FUNCTIONS_PORT, server.port)
    stop.wait()
    server.close()
    return DONE


def _announce(path: Path, port: int) -> None:
    part = path.with_suffix(".part")
    part.write_text(str(port))
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main())
