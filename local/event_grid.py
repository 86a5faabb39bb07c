"""An Event Grid custom topic on one machine, for CloudEvents: publishing, webhook subscriptions, retries, dead letters.

Times, limits and status codes are those of the service's documentation ("Delivery and retry", "Event Grid limits");
what it leaves open (jitter, delays) is drawn by seed. Faults are off until switched on.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Literal

import orjson

from local.durable.history import stamp
from local.randomness import stream
from local.timeline import Timeline
from local.web import Request, Response

API_VERSION: Final = "2018-01-01"
SIZE_LIMIT: Final = 1024 * 1024  # bytes, of one event and of one request
RETRY_LADDER: Final = (10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200)  # seconds; the last one repeats
JITTER: Final = 0.1  # share of the step that is added at most
FINAL_REFUSALS: Final = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 413: "RequestEntityTooLarge"}
LEAST_WAIT: Final = {404: 300, 408: 120, 503: 30}  # seconds before the next attempt after this answer
DEAD_LETTER_DELAY: Final = 300  # seconds between the decision and the blob
REQUIRED: Final = ("id", "source", "type")
Event = dict[str, Any]
Deliver = Callable[[Request], Response]
Outcome = Literal["delivered", "lost", "dead letter", "dropped"]
OnOutcome = Callable[[Outcome, Event], None]
DeadLetter = Callable[[str, bytes], None]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A webhook subscription. `url` is what requests carry; `deliver` brings them there."""

    name: str
    url: str
    deliver: Deliver
    event_types: tuple[str, ...] = ()
    """Empty: all types."""
    max_events_per_batch: int = 1
    """The service's default is 1; at most 5000."""
    max_attempts: int = 30
    """1 to 30; the service's default and most."""
    ttl: timedelta = timedelta(minutes=1440)
    """1 to 1440 minutes; the service's default and most."""


@dataclass(frozen=True, slots=True)
class EventFaults:
    """What happens to events on their way, each by its rate (0 to 1) and drawn by seed."""

    duplicate_rate: float = 0.0
    """The same event is delivered once more, some seconds later."""
    delay_rate: float = 0.0
    delay_seconds: tuple[float, float] = (5.0, 120.0)
    reorder_rate: float = 0.0
    """An event waits for up to two seconds, so that later ones overtake it."""
    loss_rate: float = 0.0
    """Event Grid does not lose what it accepted: this is for showing that the system lives with it all the same."""


@dataclass(slots=True)
class Counters:
    """What a topic did so far. `delivered` and `attempts` count events, not requests."""

    published: int = 0
    refused: int = 0
    delivered: int = 0
    attempts: int = 0
    redeliveries: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    lost: int = 0
    duplicated: int = 0
    delayed: int = 0
    reordered: int = 0


@dataclass(slots=True, eq=False)
class _Pending:
    """One event on its way to one subscription."""

    event: Event
    published: datetime
    attempts: int = 0
    last_attempt: datetime | None = None
    outcome: str = ""


@dataclass(slots=True, eq=False)
class _Route:
    """A subscription and what waits for it."""

    subscription: Subscription
    waiting: list[_Pending] = field(default_factory=list)
    scheduled: bool = False


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """How a topic behaves. `delay` is drawn evenly, in seconds, from acceptance to the first attempt."""

    seed: int = 0
    key: str = "local"
    """What publishers send as aeg-sas-key."""
    delay: tuple[float, float] = (0.05, 0.5)
    faults: EventFaults = field(default_factory=EventFaults)
    subscription_id: str = "00000000-0000-0000-0000-000000000000"
    """The Azure subscription in the names of dead-letter blobs."""
    dead_letter_delay: float = DEAD_LETTER_DELAY


class HandshakeFailed(Exception):
    """The webhook did not agree to receive events; the message holds its answer."""


class EventGridTopic:
    """A `local.web.Handler` for publishers.

    Deliveries happen on the timeline; with an `executor` the request itself is made on one of its threads, as it must
    be when it goes over HTTP on the wall clock.
    """

    def __init__(
        self,
        timeline: Timeline,
        options: TopicOptions | None = None,
        *,
        dead_letter: DeadLetter | None = None,
        executor: Executor | None = None,
    ) -> None:
        """Without `dead_letter`, what cannot be delivered is dropped, as by a subscription without a container."""
        self.options = options or TopicOptions()
        self._faults = self.options.faults
        self.counters = Counters()
        self._timeline, self._dead_letter, self._executor = timeline, dead_letter, executor
        self._source = stream(self.options.seed, "event-grid")
        self._routes: dict[str, _Route] = {}
        self._listeners: list[OnOutcome] = []

    def on_outcome(self, listener: OnOutcome) -> None:
        """Call `listener` with what becomes of every event at each subscription."""
        self._listeners.append(listener)

    def _tell(self, outcome: Outcome, event: Event) -> None:
        for listener in self._listeners:
            listener(outcome, event)

    # Subscribing

    def subscribe(self, subscription: Subscription) -> None:
        """Shake hands with the webhook and deliver to it from now on. Raises HandshakeFailed."""
        request = Request.of("OPTIONS", subscription.url, {"webhook-request-origin": "eventgrid.azure.net"})
        response = subscription.deliver(request)
        allowed = {name.lower(): value for name, value in response.headers.items()}.get("webhook-allowed-origin")
        if response.status != 200 or allowed not in ("*", "eventgrid.azure.net"):
            raise HandshakeFailed(
                f"subscription {subscription.name!r}: {subscription.url} answered {response.status} with "
                f"WebHook-Allowed-Origin {allowed!r} to the validation request"
            )
        self._routes[subscription.name] = _Route(subscription)

    def unsubscribe(self, name: str) -> None:
        """Deliver nothing more to the subscription of that name; what waits for it is given up."""
        self._routes.pop(name, None)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """Those that events are delivered to."""
        return tuple(route.subscription for route in self._routes.values())

    # Publishing

    def handle(self, request: Request) -> Response:
        """The publisher's endpoint: 200, or 400, 401, 404, 413 with the service's error body."""
        if not request.path.endswith("/api/events"):
            return _refusal(404, "NotFound", f"there is no {request.path}; publish to /api/events")
        if request.method != "POST" or request.query.get("api-version") != API_VERSION:
            return self._refuse(400, "BadRequest", f"POST with api-version={API_VERSION} is served, nothing else")
        if request.headers.get("aeg-sas-key") != self.options.key:
            return self._refuse(401, "Unauthorized", "The request authorization key is not valid for the topic.")
        if len(request.body) > SIZE_LIMIT:
            return self._refuse(413, "RequestEntityTooLarge", f"{len(request.body)} bytes, the limit is {SIZE_LIMIT}")
        try:
            events = _parse(request)
        except ValueError as error:
            return self._refuse(400, "BadRequest", str(error))
        for event in events:
            self._accept(event)
        return Response(200)

    def publish(self, events: list[Event]) -> None:
        """Publish without a request, for tests and simulations."""
        for event in events:
            self._accept(event)

    def _refuse(self, status: int, code: str, message: str) -> Response:
        self.counters.refused += 1
        return _refusal(status, code, message)

    def calm(self) -> None:
        """No more trouble with events that are accepted from now on."""
        self._faults = EventFaults()

    def _accept(self, event: Event) -> None:
        self.counters.published += 1
        faults, draw = self._faults, self._source.random
        for route in self._routes.values():
            if route.subscription.event_types and event["type"] not in route.subscription.event_types:
                continue
            if _happens(faults.loss_rate, self._source):
                self.counters.lost += 1
                self._tell("lost", event)
                continue
            wait = _between(self.options.delay, self._source)
            if _happens(faults.delay_rate, self._source):
                self.counters.delayed += 1
                wait += _between(faults.delay_seconds, self._source)
            if _happens(faults.reorder_rate, self._source):
                self.counters.reordered += 1
                wait += 2 * draw()
            self._later(wait, route, _Pending(event, self._timeline.now()))
            if _happens(faults.duplicate_rate, self._source):
                self.counters.duplicated += 1
                self._later(wait + 10 * draw(), route, _Pending(event, self._timeline.now()))

    # Delivering

    def _later(self, seconds: float, route: _Route, pending: _Pending) -> None:
        self._timeline.call_later(seconds, partial(self._due, route, pending))

    def _due(self, route: _Route, pending: _Pending) -> None:
        route.waiting.append(pending)
        if not route.scheduled:
            route.scheduled = True
            self._timeline.call_later(0, partial(self._flush, route))

    def _flush(self, route: _Route) -> None:
        route.scheduled = False
        waiting, route.waiting = route.waiting, []
        size = route.subscription.max_events_per_batch
        for start in range(0, len(waiting), size):
            self._attempt(route, waiting[start : start + size])

    def _attempt(self, route: _Route, batch: list[_Pending]) -> None:
        now = self._timeline.now()
        for pending in batch:
            pending.attempts += 1
            pending.last_attempt = now
            self.counters.attempts += 1
            self.counters.redeliveries += pending.attempts > 1
        headers = {
            "content-type": "application/cloudevents-batch+json; charset=utf-8",
            "aeg-event-type": "Notification",
            "aeg-subscription-name": route.subscription.name.upper(),
            "aeg-delivery-count": str(batch[0].attempts - 1),
        }
        body = orjson.dumps([pending.event for pending in batch])
        request = Request.of("POST", route.subscription.url, headers, body)
        if self._executor is None:
            self._settle(route, batch, _ask(route.subscription.deliver, request))
        else:
            future = self._executor.submit(_ask, route.subscription.deliver, request)
            future.add_done_callback(partial(self._answered, route, batch))

    def _answered(self, route: _Route, batch: list[_Pending], future: Future[int]) -> None:
        if not future.cancelled():
            with self._timeline.lock:
                self._settle(route, batch, future.result())

    def _settle(self, route: _Route, batch: list[_Pending], status: int) -> None:
        if 200 <= status <= 204:
            self.counters.delivered += len(batch)
            for pending in batch:
                self._tell("delivered", pending.event)
            return
        for pending in batch:
            pending.outcome = FINAL_REFUSALS.get(status, "NotFound" if status == 404 else "GenericError")
            if status in FINAL_REFUSALS:
                self._give_up(pending, "UndeliverableDueToRejection")
            elif pending.attempts >= route.subscription.max_attempts:
                self._give_up(pending, "MaxDeliveryAttemptsExceeded")
            else:
                self._retry(route, pending, status)

    def _retry(self, route: _Route, pending: _Pending, status: int) -> None:
        step = RETRY_LADDER[min(pending.attempts, len(RETRY_LADDER)) - 1]
        wait = max(step, LEAST_WAIT.get(status, 10)) * (1 + JITTER * self._source.random())
        if self._timeline.now() + timedelta(seconds=wait) > pending.published + route.subscription.ttl:
            self._give_up(pending, "TimeToLiveExceeded")
        else:
            self._later(wait, route, pending)

    # Dead letters

    def _give_up(self, pending: _Pending, reason: str) -> None:
        if self._dead_letter is None:
            self.counters.dropped += 1
            self._tell("dropped", pending.event)
            return
        self.counters.dead_lettered += 1
        self._tell("dead letter", pending.event)
        now = self._timeline.now()
        event = {
            **pending.event,
            "deadletterreason": reason,
            "deliveryattempts": pending.attempts,
            "lastdeliveryoutcome": pending.outcome,
            "publishtime": stamp(pending.published),
            "lastdeliveryattempttime": stamp(pending.last_attempt or now),
        }
        name = dead_letter_name(self.options.subscription_id, now, self._source)
        write = partial(self._dead_letter, name, orjson.dumps([event]))
        self._timeline.call_later(self.options.dead_letter_delay, write)


def dead_letter_name(subscription_id: str, now: datetime, source: random.Random) -> str:
    """A dead-letter blob's name: <SUBSCRIPTION>/<year>/<month>/<day>/<hour>/<guid>.json, without leading zeros."""
    guid = uuid.UUID(int=source.getrandbits(128), version=4)
    return f"{subscription_id.upper()}/{now.year}/{now.month}/{now.day}/{now.hour}/{guid}.json"


def _ask(deliver: Deliver, request: Request) -> int:
    try:
        return deliver(request).status
    except OSError:  # nobody listens: to Event Grid that is one more failed attempt
        return 503


def _parse(request: Request) -> list[Event]:
    if not request.headers.get("content-type", "").startswith("application/cloudevents-batch+json"):
        raise ValueError("content-type must be application/cloudevents-batch+json")
    try:
        events = orjson.loads(request.body)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"the body is no JSON: {error}") from error
    if not isinstance(events, list):
        raise ValueError("the body must be an array of CloudEvents")
    for position, event in enumerate(events):
        if not isinstance(event, dict) or event.get("specversion") != "1.0":
            raise ValueError(f"[{position}].specversion must be '1.0'")
        for name in REQUIRED:
            if not isinstance(event.get(name), str) or not event[name]:
                raise ValueError(f"[{position}].{name} must be a non-empty string")
        if "time" in event and not _is_time(event["time"]):
            raise ValueError(f"[{position}].time must be a time in the form of RFC 3339")
    return events


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _refusal(status: int, code: str, message: str) -> Response:
    return Response.of_json(status, {"error": {"code": code, "message": message}})


def _between(span: tuple[float, float], source: random.Random) -> float:
    low, high = span
    return low + (high - low) * source.random()


def _happens(rate: float, source: random.Random) -> bool:
    return rate > 0 and source.random() < rate
