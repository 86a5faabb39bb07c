"""Time inside a step of the app, on a timeline that stands still meanwhile: processor time as measured here, requests
as drawn. Every message that the step sends leaves that much later, and takes its own time on the way."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import thread_time
from typing import Any

from bench.latency import model as m
from bench.latency.queues import ControlQueues
from local.durable.model import Draws, Latencies
from local.timeline import VirtualTimeline
from local.web import Handler, Request, Response
from shared.adapters.kubernetes_access import CONNECTIONS

OUTSIDE, WORKER = "outside", "worker"
EPISODE, ACTIVITY, ENTITY, TIMER, START = "episodes", "activities", "entity calls", "timers", "starts"


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of processor time, taken here before the runs. `replay_factor`: how much longer an episode takes with
    the SDK as it is; the local host parses its timestamps in a quicker way."""

    ingest_import: float
    worker_import: float
    replay_factor: float


class Meter(Draws):
    """A latency model for the host, fed by the doors and functions that it is told of."""

    def __init__(self, model: m.Model, measured: Measured, source: random.Random, timeline: VirtualTimeline) -> None:
        super().__init__(Latencies.none(), source)
        self._measured, self._timeline = measured, timeline
        self.become(model, source)
        self._began: float | None = None
        self._spent = self._requests = 0.0
        self._factor = 1.0
        self._pods_read = False
        self._place = WORKER
        self._asleep: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.listeners: list[Callable[[str, Request, datetime, datetime], None]] = []
        """Told of every request that was not refused: kind, request, when it left, when it was done or accepted."""

    def become(self, model: m.Model, source: random.Random) -> None:
        """Go on by this model, with draws of its own."""
        self._model, self.source = model, source
        self._queues = ControlQueues(model.polling, source) if model.provider == m.STORAGE else None

    # Steps

    @contextmanager
    def step(self, kind: str, place: str = WORKER) -> Iterator[None]:
        """A function of the app runs."""
        self.counts[kind] += 1
        self._place, self._factor = place, self._measured.replay_factor if kind == EPISODE else 1.0
        self._requests = self._wake(place) if place == OUTSIDE else 0.0
        self._pods_read = False
        self._began = thread_time()
        try:
            yield
        finally:
            self._spent = self.elapsed()
            self._began = None

    def elapsed(self) -> float:
        """Seconds since the present step began, or of the last one."""
        if self._began is None:
            return self._spent
        return (thread_time() - self._began) * self._factor + self._requests

    def here(self) -> datetime:
        """The present moment, inside the step too."""
        return self._timeline.now() + timedelta(seconds=self.elapsed())

    def request(self, kind: str, request: Request, cost: float, answer: Callable[[], Response]) -> Response:
        """Somebody outside answers: their processor is not ours."""
        left = self.here()
        before = thread_time()
        response = answer()
        if self._began is not None:
            self._began += thread_time() - before
        cost = self._shared(request, cost)
        self._requests += cost
        for listener in self.listeners if response.status < 300 else ():
            listener(kind, request, left, left + timedelta(seconds=cost))
        if kind == "arm write":
            self._requests += m.ARM_WRITE.draw(self.source)
        return response

    def _shared(self, request: Request, cost: float) -> float:
        """Pods are read many at a time by one step: the first in its own time, each further one in its share."""
        if request.method != "GET" or "/pods/" not in request.path:
            return cost
        first, self._pods_read = not self._pods_read, True
        return cost if first else cost / CONNECTIONS

    def _wake(self, place: str) -> float:
        """Seconds until an instance runs, when none does."""
        if place not in self._asleep:
            return 0.0
        self._asleep.discard(place)
        measured = self._measured.ingest_import if place == OUTSIDE else self._measured.worker_import
        return m.PLATFORM_START.draw(self.source) + measured

    def fall_asleep(self) -> None:
        """Nothing has happened for long: without an instance that is always ready, none is left."""
        if not self._model.warm:
            self._asleep = {OUTSIDE, WORKER}

    # Messages, as the host asks for them

    def start(self, instance_id: str) -> float:
        """See `Draws`. `ingest` is in a scale group of its own, so nobody wakes the worker's poller for it."""
        self.counts[START] += 1
        if self._place == WORKER:
            return self._to(instance_id)
        woken, at = self._wake(WORKER), self._now() + self.elapsed()
        seen = max(at + woken, self._queues.foreign(instance_id, at + woken) if self._queues else 0.0)
        return self._hop() + seen - self._now()

    def activity(self, name: str) -> float:  # noqa: ARG002 - the work-item queue has the same worker at both ends
        """See `Draws`."""
        return self.elapsed() + self._hop()

    def completion(self, instance_id: str) -> float:
        """See `Draws`."""
        return self._to(instance_id)

    def entity(self, entity_id: str) -> float:
        """See `Draws`."""
        self.counts[ENTITY] += 1
        return self._to(entity_id)

    def event(self, instance_id: str) -> float:
        """See `Draws`."""
        return self._to(instance_id)

    def signal(self, entity_id: str) -> float:
        """See `Draws`."""
        return self._to(entity_id)

    def timer(self, instance_id: str, due: datetime) -> float:
        """See `Draws`."""
        self.counts[TIMER] += 1
        if self._queues is None:
            return self._hop()
        at = self._seconds_of(due)
        return self._queues.hidden(instance_id, at) - at + self._hop()

    def _to(self, target: str) -> float:
        if self._queues is not None:
            self._queues.own(target, self._now() + self.elapsed())
        return self.elapsed() + self._hop()

    def _hop(self) -> float:
        return self._model.hop.draw(self.source)

    def _now(self) -> float:
        return self._seconds_of(self._timeline.now())

    @staticmethod
    def _seconds_of(moment: datetime) -> float:
        return moment.timestamp()

    # Around the app's functions

    def synchronous(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, metered."""

        def metered(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever it takes and gives
            with self.step(kind):
                return function(*arguments, **named)

        return metered

    def asynchronous(self, kind: str, place: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The coroutine function, metered."""

        async def metered(**named: Any) -> Any:  # noqa: ANN401 - as above
            with self.step(kind, place):
                return await function(**named)

        return metered


class Door:
    """A handler whose answers take their time."""

    def __init__(self, inner: Handler, meter: Meter, kind: str) -> None:
        self._inner, self._meter, self._kind = inner, meter, kind

    def handle(self, request: Request) -> Response:
        """See `Handler`."""
        kind, cost = self._cost(request)
        return self._meter.request(kind, request, cost, lambda: self._inner.handle(request))

    def _cost(self, request: Request) -> tuple[str, float]:
        reads = request.method in {"GET", "HEAD"}
        source = self._meter.source
        if self._kind == "arm":
            return ("arm read", m.ARM_READ.draw(source)) if reads else ("arm write", m.ARM_WRITE.draw(source))
        if self._kind != "kubernetes":
            return self._kind, {"blobs": m.BLOB, "durable client": m.CLIENT}[self._kind].draw(source)
        paged = reads and "limit" in request.query
        return "kubernetes", (m.KUBERNETES_PAGE if paged else m.KUBERNETES).draw(source)
