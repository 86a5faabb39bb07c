"""The process that stands for everything outside: Azure, the cluster, the topic, the storage, each on its own port."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson

from local.arm.settings import ArmLatencies, Quirks
from local.blob_storage import ACCOUNT
from local.checker.rules import check
from local.errors import DONE, UserError
from local.http_server import serve
from local.kube.controllers.timing import Timing
from local.machines import BootTimes
from local.system.control import Control
from local.system.endpoints import Endpoints
from local.system.history import run_record
from local.system.installation import ShownInstallation
from local.system.picture import draw
from local.system.report import report
from local.system.stand_ins import INGEST_PATH, Behaviour, Deliver, StandIns
from local.timeline import WallTimeline
from local.web import Handler, Request, Response
from shared.settings.config import parse_config

DELIVERY_SECONDS = 30.0  # Event Grid waits no longer for an answer
NOT_REACHED = 502
BRISK = Behaviour(
    arm=ArmLatencies.brisk(),
    quirks=Quirks(),
    boot=BootTimes(boot=(1.0, 2.5), startup_taint=True),
    cluster=Timing(node_ready=(0.2, 0.5), pod_start=(0.2, 0.8), pod_stop=(0.1, 0.4), node_silence=10.0),
)
"""A cluster that people can watch: everything some ten times faster than in Azure."""


def deliver_to(base: str) -> Deliver:
    """Event Grid's own requests to a webhook at `base`; who cannot be reached is a 502, to be tried again."""

    def deliver(request: Request) -> Response:
        url = f"{base}{request.path}?{urlencode(request.query)}"
        wire = urllib.request.Request(  # noqa: S310 - loopback
            url, request.body or None, dict(request.headers), method=request.method
        )
        try:
            with urllib.request.urlopen(wire, timeout=DELIVERY_SECONDS) as response:  # noqa: S310 - loopback
                return Response(response.status, dict(response.headers), response.read())
        except urllib.error.HTTPError as error:
            return Response(error.code, dict(error.headers), error.read())
        except OSError as error:
            return Response(NOT_REACHED, {}, str(error).encode())

    return deliver


class Outside:
    """The stand-ins with everything that a process of their own needs."""

    def __init__(self, pools: Path, state: Path, out: Path, seed: int) -> None:
        text = pools.read_text()
        self.timeline = WallTimeline()
        self.token, self.topic_key = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        self.stand_ins = StandIns(
            self.timeline,
            text,
            parse_config(text, to_act=True),
            seed=seed,
            behaviour=BRISK,
            topic_key=self.topic_key,
            token=self.token,
            blobs=state / "blobs",
            executor=ThreadPoolExecutor(8, "delivery"),
        )
        self.installation = ShownInstallation(self.stand_ins)
        self._out = out

    def control(self) -> Control:
        """Its own door."""
        return Control(self.stand_ins, self._connect, self._finish)

    def _connect(self, url: str) -> None:
        with self.timeline.lock:
            self.stand_ins.connect(deliver_to(url), f"{url}{INGEST_PATH}")

    def _finish(self, told: dict[str, Any]) -> dict[str, Any]:
        """Judge the run and write `report.json` and `run.svg`; returns the report."""
        with self.timeline.lock:
            evidence = self.stand_ins.evidence(orchestrations=tuple(told["orchestrations"]), host=tuple(told["host"]))
            run = run_record(self.stand_ins, check(evidence))
        document = report(run)
        (self._out / "report.json").write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
        draw(run, self._out / "run.svg", "Demand and capacity")
        return document


def main() -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    for name in ("--pools", "--state", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    try:
        return _serve(Outside(given.pools, given.state, given.out, given.seed), given.state, given.port)
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def _serve(outside: Outside, state: Path, port: int) -> int:
    stop, lock, stand_ins = threading.Event(), outside.timeline.lock, outside.stand_ins
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as servers:

        def url(handler: Handler, at: int = 0, *, locked: bool = True) -> str:
            return servers.enter_context(serve(handler, port=at, lock=lock if locked else None)).url

        Endpoints(
            arm=url(stand_ins.arm_door),
            cluster=url(stand_ins.cluster_door, port),
            blobs=f"{url(stand_ins.blobs)}/{ACCOUNT}",
            topic=url(stand_ins.topic),
            control=url(outside.control(), locked=False),
            token=outside.token,
            topic_key=outside.topic_key,
            functions_cluster=url(stand_ins.watch.door(stand_ins.cluster_door, "functions")),
            installation=outside.installation.outputs(),
        ).write(state / "endpoints.json")
        stop.wait()
    return DONE


if __name__ == "__main__":
    sys.exit(main())
