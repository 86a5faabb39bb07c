"""The exporter on the wall clock: a thread per watch, one loop for everything else, until it is told to stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from exporter.health import Health
from exporter.reflector import ABSENT_SECONDS, LONGEST_DELAY_SECONDS, Reflector, next_delay
from exporter.service import ExporterService
from shared.adapters.errors import OutsideError, RetryLater

WATCH_SECONDS = 300  # the server ends a watch by then; resuming costs one request
STOP_SECONDS = 20.0  # of the 30 that a pod has: time for a last attempt at the topic and to release the Lease
LONGEST_WAIT_SECONDS = 30.0
SHORTEST_WATCH_SECONDS = 1.0  # a server that ends a watch sooner without a word is not asked more often than this
COALESCE_SECONDS = 0.05  # a scheduler binds hundreds of pods a second: look at twenty moments of it, not at each

_log = logging.getLogger(__name__)


class Runner:
    """Drives a service whose first lists have been made. `stop` may be called from a signal handler."""

    def __init__(self, service: ExporterService, clock: Callable[[], datetime]) -> None:
        self._service, self._clock = service, clock
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, args=(reflector,), name=f"watch {reflector.path}", daemon=True)
            for reflector in service.reflectors
        ]
        service.cache.on_change = self._wake.set

    def run(self) -> None:
        """Until `stop`; then send what waits and release the Lease, within the deadline."""
        for thread in self._threads:
            thread.start()
        while not self._stopping.is_set():
            self._wake.clear()
            due = self._service.tick(self._clock())
            if self._wake.wait(self._seconds_until(due)):
                self._stopping.wait(COALESCE_SECONDS)
        self._wind_up()

    def stop(self) -> None:
        """Ask `run` to end. Idempotent."""
        self._stopping.set()
        self._wake.set()

    def health(self) -> Health:
        """The service's, and not alive when a watch thread ended, which only a fault of ours can do."""
        health = self._service.health(self._clock())
        ended = [thread.name for thread in self._threads if thread.ident is not None and not thread.is_alive()]
        if ended and not self._stopping.is_set():
            return replace(health, alive=False, problem=f"thread ended: {', '.join(ended)}")
        return health

    def _seconds_until(self, due: datetime | None) -> float:
        if due is None:
            return LONGEST_WAIT_SECONDS
        return min(max((due - self._clock()).total_seconds(), 0.0), LONGEST_WAIT_SECONDS)

    def _follow(self, reflector: Reflector) -> None:
        while not self._stopping.is_set():
            try:
                began = time.monotonic()
                changed = reflector.sync_once(WATCH_SECONDS)
                if reflector.absent:
                    self._stopping.wait(ABSENT_SECONDS)
                elif not changed and time.monotonic() - began < SHORTEST_WATCH_SECONDS:
                    self._stopping.wait(SHORTEST_WATCH_SECONDS)
            except RetryLater as error:
                delay = next_delay(reflector.failures, error.retry_after)
                _log.warning("%s; again in %.1f s", error, delay)
                self._stopping.wait(delay)
            except OutsideError as error:
                _log.error("%s; again in %.0f s", error, LONGEST_DELAY_SECONDS)
                self._stopping.wait(LONGEST_DELAY_SECONDS)

    def _wind_up(self) -> None:
        deadline = self._clock() + timedelta(seconds=STOP_SECONDS)
        pause = threading.Event()
        while not self._service.drained(self._clock()) and self._clock() < deadline:
            pause.wait(1.0)
        self._service.stop(self._clock())
        _log.info("stopped")
