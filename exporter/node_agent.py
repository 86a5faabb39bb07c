"""The second role: on each Spot node, forward Azure's eviction notice, which is given nowhere but inside the VM.

The instance metadata service answers on a link-local address, without credentials. Documents: "Azure Metadata Service:
Scheduled Events for Linux VMs" (api-version 2020-07-01; Preempt comes at least 30 seconds ahead) and "Azure Instance
Metadata Service" (compute). A scale set's VMs see each other's events, hence the look at `Resources`.
"""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from shared.adapters.errors import OutsideError, Rejected
from shared.adapters.protocols import EventPublisher, Json

EVENTS_URL = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"
COMPUTE_URL = "http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01"
POLL_SECONDS = 1.0  # of a notice of 30 seconds; the documentation asks for no more than once a second
FETCH_SECONDS = 5.0  # the first call after a boot may take up to two minutes; the next poll then finds the answer
NOTICE_SECONDS = 30.0  # the shortest warning, taken when the event names no time

_log = logging.getLogger(__name__)

Fetch = Callable[[str], Json]


@dataclass(frozen=True, slots=True)
class Machine:
    """This VM: its name as scheduled events write it, and its Node's providerID."""

    vm_name: str
    provider_id: str


@dataclass(frozen=True, slots=True)
class Preemption:
    """Azure takes this VM away at `not_before`, or soon after; `event_id` is Azure's own."""

    event_id: str
    not_before: datetime


def fetch_metadata(url: str) -> Json:
    """One GET of the metadata service. Raises OSError when nothing answers, ValueError for anything but an object."""
    request = urllib.request.Request(url, headers={"Metadata": "true"})  # noqa: S310 - one of the addresses above
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # link-local: never through a proxy
    with opener.open(request, timeout=FETCH_SECONDS) as response:
        document = orjson.loads(response.read())
    if not isinstance(document, dict):
        raise ValueError(f"{url}: expected an object, found {type(document).__name__}")
    return document


def read_machine(fetch: Fetch) -> Machine:
    """Who we are. Raises as `fetch` does, and ValueError when the answer has no name."""
    compute = fetch(COMPUTE_URL)
    name, resource_id = compute.get("name"), compute.get("resourceId")
    if not name or not resource_id:
        raise ValueError(f"{COMPUTE_URL}: the answer has no name or no resourceId")
    return Machine(name, f"azure://{resource_id}")


def preemptions(document: Json, machine: Machine, now: datetime) -> list[Preemption]:
    """The document's evictions of this VM, in its order. One without a time is due the shortest notice from `now`."""
    return [
        Preemption(event["EventId"], _time(event.get("NotBefore"), now))
        for event in document.get("Events") or ()
        if event.get("EventType") == "Preempt" and machine.vm_name in (event.get("Resources") or ())
    ]


def _time(text: Any, now: datetime) -> datetime:  # noqa: ANN401 - the metadata service's own JSON
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except (TypeError, ValueError):
        return now + timedelta(seconds=NOTICE_SECONDS)


class NodeAgent:
    """Asks once per `poll`, and posts each eviction until the topic has taken it. `build` makes the event."""

    def __init__(
        self,
        fetch: Fetch,
        publisher: EventPublisher,
        machine: Machine,
        build: Callable[[Preemption, datetime], Json],
    ) -> None:
        self._fetch, self._publisher, self._machine, self._build = fetch, publisher, machine, build
        self._waiting: dict[str, Json] = {}
        self._told: set[str] = set()
        self.problem = ""

    def poll(self, now: datetime) -> int:
        """One look; returns how many events were posted. Never raises for what the outside answers: the next poll,
        a second later, is the retry."""
        try:
            document = self._fetch(EVENTS_URL)
            for found in preemptions(document, self._machine, now):
                if found.event_id not in self._told and found.event_id not in self._waiting:
                    self._waiting[found.event_id] = self._build(found, now)
            self._forget(document)
        except (OSError, ValueError, KeyError) as error:
            self._complain(f"the metadata service: {error}")
        else:
            self.problem = self.problem if self._waiting else ""
        return sum(self._post(event_id) for event_id in list(self._waiting))

    def _forget(self, document: Json) -> None:
        """Ids that Azure no longer lists, so that a VM of long life does not collect them."""
        self._told &= {event.get("EventId") for event in document.get("Events") or ()}

    def _post(self, event_id: str) -> bool:
        try:
            self._publisher.publish([self._waiting[event_id]])
        except Rejected as error:
            self._complain(f"the eviction notice was dropped, the topic will never take it: {error}")
            self._told.add(event_id)
            del self._waiting[event_id]
            return False
        except OutsideError as error:
            self._complain(str(error))
            return False
        _log.warning("this node is being evicted; said so to the topic")
        self._told.add(event_id)
        del self._waiting[event_id]
        self.problem = ""
        return True

    def _complain(self, problem: str) -> None:
        if problem != self.problem:
            _log.warning("%s", problem)
        self.problem = problem
