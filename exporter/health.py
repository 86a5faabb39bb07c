"""/healthz, /readyz and /metrics on a port of their own, for the kubelet and whoever scrapes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Health:
    """How the exporter is. `problem` is one line, empty when all is well; `alive` False asks for a restart."""

    alive: bool
    ready: bool
    problem: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


def metrics_text(figures: Mapping[str, float]) -> str:
    """Prometheus' text form; labels are part of a figure's name, as in `sluice_x_total{type="y"}`."""
    lines = []
    for name in sorted(figures):
        bare = name.partition("{")[0]
        header = f"# TYPE {bare} {'counter' if bare.endswith('_total') else 'gauge'}"
        if header not in lines:
            lines.append(header)
        lines.append(f"{name} {figures[name]:.15g}")
    return "\n".join(lines) + "\n"


def respond(path: str, health: Health) -> tuple[int, str]:
    """Status and body for a path."""
    match path.partition("?")[0]:
        case "/healthz":
            return (200, "ok\n") if health.alive else (503, f"{health.problem}\n")
        case "/readyz":
            return (200, "ok\n") if health.ready else (503, f"{health.problem or 'still listing'}\n")
        case "/metrics":
            return 200, metrics_text(health.figures)
        case _:
            return 404, "try /healthz, /readyz or /metrics\n"


class HealthServer:
    """Serves on a thread until `close`; port 0 takes a free one. Raises OSError when the port is in use."""

    def __init__(self, port: int, look: Callable[[], Health], host: str = "") -> None:
        handler = type("Handler", (_Handler,), {"look": staticmethod(look)})
        self._server = ThreadingHTTPServer((host, port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving; idempotent."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


class _Handler(BaseHTTPRequestHandler):
    look: Callable[[], Health]

    def do_GET(self) -> None:
        status, body = respond(self.path, self.look())
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        _log.debug(format, *args)
