"""`make cost`: what Sluice itself does in a day, on a cluster where nothing happens and on one where much does.

Both days are played on virtual time: exporter, topic, functions on the real SDKs, ARM, API server. Counted is what
Azure counts when it writes a bill, as it happens at the doors and in the Durable backend; nothing is estimated but what
the lines say. There are no prices: whoever knows those of their region and contract multiplies (docs/figures.md).
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from local.durable import history
from local.durable.journal import Changes, NullJournal
from local.durable.model import Kind
from local.errors import DONE
from local.system.stand_ins import Behaviour
from local.system.trace import TracePod, read_trace
from local.system.virtual import VirtualSystem
from local.web import Handler, Request, Response

DAY = timedelta(days=1)
WARM_UP = timedelta(hours=2)
MEMORY = 2.0  # GB of an instance, the smallest that infra/ asks for
LEAST_BILLED = 1.0  # seconds: Flex Consumption bills no shorter period
POLLERS = 5  # queues: host.json's four partitions and the work items
POLLED_EVERY = 1.0  # seconds, at most: host.json's maxQueuePollingInterval
DURABLE, INGEST, MAINTENANCE = "durable", "ingest", "maintenance"
IDLE_POOLS = """
cluster: idle
mode: act
azure: {subscription: 00000000-0000-4000-8000-000000000001, resource_group: sluice, location: westeurope}
pools:
  - {name: spot, sku: Standard_D4s_v5, shape: {cpu: 4, memory: 16Gi}, priority: Spot, price: 0.05, max: 40,
     fallback: [regular]}
  - {name: regular, sku: Standard_D4s_v5, shape: {cpu: 4, memory: 16Gi}, price: 0.2, min: 1, max: 40}
  - {name: warm, sku: Standard_D4s_v5, shape: {cpu: 4, memory: 16Gi}, price: 0.2, min: 1, max: 4,
     taints: ["team=night:NoSchedule"]}
"""


@dataclass
class Ledger:
    """What was counted, and the moments at which functions ran."""

    counts: Counter[str] = field(default_factory=Counter)
    ran: dict[str, list[float]] = field(default_factory=dict)

    def execute(self, group: str, what: str, moment: datetime, number: int = 1) -> None:
        """Functions of a scale group ran."""
        self.counts[what] += number
        self.ran.setdefault(group, []).append(moment.timestamp())

    def billed_seconds(self, group: str) -> float:
        """Seconds in which an instance of the group was at work, each time for the least that is billed."""
        total, end = 0.0, 0.0
        for moment in sorted(self.ran.get(group, [])):
            total += min(LEAST_BILLED, max(0.0, moment + LEAST_BILLED - end))
            end = max(end, moment + LEAST_BILLED)
        return total


class Counting(NullJournal):
    """Counts every message and episode of the Durable backend."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self.clock = ledger, lambda: datetime.min.replace(tzinfo=UTC)
        self.begun: Counter[str] = Counter()
        self._known: set[str] = set()

    def commit(self, changes: Changes) -> None:
        """See `Journal.commit`."""
        now, counts = self.clock(), self._ledger.counts
        for instance, events in changes.appended:
            if any(event["EventType"] == history.ORCHESTRATOR_STARTED for event in events):
                self._ledger.execute(DURABLE, "orchestrator episodes", now)
                counts["history rows"] += len(events)
            if instance.id not in self._known or any(e["EventType"] == history.EXECUTION_STARTED for e in events):
                self._known.add(instance.id)
                self.begun[instance.name] += 1
        for message in changes.taken:
            counts["durable messages"] += 1
            if message.kind is Kind.ACTIVITY:
                self._ledger.execute(DURABLE, "activities", now)
            elif message.kind is Kind.ENTITY:
                self._ledger.execute(DURABLE, "entity operations", now)


class Counted:
    """A door whose requests are counted."""

    def __init__(self, inner: Handler, ledger: Ledger, door: str) -> None:
        self._inner, self._ledger, self._door = inner, ledger, door

    def handle(self, request: Request) -> Response:
        """See `Handler.handle`."""
        who, _, place = self._door.partition(" ")
        self._ledger.counts[f"{place} {_kind(place, request)} by {who}"] += 1
        return self._inner.handle(request)


def _kind(place: str, request: Request) -> str:
    if place == "blobs":
        if request.query.get("comp") == "list":
            return "lists"
        return {"GET": "reads", "HEAD": "reads", "PUT": "writes", "DELETE": "deletes"}.get(request.method, "others")
    return "reads" if request.method in ("GET", "HEAD") else "writes"


class Lines(logging.Handler):
    """Counts what the app writes to its log, as text."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self._ledger.counts["log lines"] += 1
        self._ledger.counts["log bytes"] += len(self.format(record).encode())


class Day:
    """A system that is watched for a day, after it has warmed up."""

    def __init__(self, text: str) -> None:
        self.ledger = Ledger()
        self.journal = Counting(self.ledger)
        self.system = VirtualSystem(
            text,
            behaviour=Behaviour(),
            journal=self.journal,
            guard=lambda door, inner: Counted(inner, self.ledger, door),
        )
        self.journal.clock = self.system.timeline.now
        self.system.stand_ins.connect(self._deliver)

    def _deliver(self, request: Request) -> Response:
        if request.method == "POST":
            self.ledger.execute(INGEST, "events delivered", self.system.timeline.now())
        return self.system.deliver(request)

    def watch(self, span: timedelta) -> Ledger:
        """Count from now on, for so long; what was counted before is forgotten."""
        self.ledger.counts.clear()
        self.ledger.ran.clear()
        self.journal.begun.clear()
        handler, log = Lines(self.ledger), logging.getLogger("sluice")
        log.addHandler(handler)
        try:
            self.system.run_for(span)
        finally:
            log.removeHandler(handler)
        self.ledger.counts["timer runs"] = self.journal.begun["reconcile"]
        return self.ledger


def idle_day() -> tuple[Ledger, str]:
    """A Deployment that runs, nodes that it fills, and one empty node that its pool's minimum keeps."""
    day = Day(IDLE_POOLS)
    day.system.users.create("/apis/apps/v1/namespaces/default/deployments", _deployment("web", 20))
    day.system.run_for(WARM_UP)
    machines = day.system.machines_now()
    return day.watch(DAY), f"{machines} nodes, 20 pods, nothing changes"


def busy_day(trace: Path) -> tuple[Ledger, str]:
    """The busiest day of a trace, after the one before it."""
    pods = read_trace(trace)
    first = max(range(1, 1 + int(max(pod.arrives for pod in pods) // 86_400)), key=lambda n: len(_of_day(pods, n)))
    before, of_day = _of_day(pods, first - 1), _of_day(pods, first)
    text = (Path(__file__).parents[1] / "examples/pools/openb.yaml").read_text()
    day = Day(text)
    begin = (first - 1) * 86_400.0
    day.system.users.replay([_shifted(pod, begin) for pod in (*before, *of_day)])
    day.system.run_for(DAY)
    made = len(day.system.stand_ins.arm.truth.vms)
    ledger = day.watch(DAY)
    made = len(day.system.stand_ins.arm.truth.vms) - made
    return ledger, f"{len(of_day)} pods of {trace.name}, {made} nodes made"


def _of_day(pods: list[TracePod], number: int) -> list[TracePod]:
    return [pod for pod in pods if number * 86_400.0 <= pod.arrives < (number + 1) * 86_400.0]


def _shifted(pod: TracePod, begin: float) -> TracePod:
    return TracePod(**{name: getattr(pod, name) for name in TracePod.__slots__} | {"arrives": pod.arrives - begin})


def _deployment(name: str, replicas: int) -> dict[str, Any]:
    container = {"name": "web", "image": "web", "resources": {"requests": {"cpu": "900m", "memory": "2Gi"}}}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def lines(ledger: Ledger) -> list[tuple[str, float, str]]:
    """(what, number, how it was come by) for a day."""
    counts = ledger.counts
    triggers = counts["events delivered"] + counts["timer runs"]
    durable = counts["orchestrator episodes"] + counts["activities"] + counts["entity operations"]
    seconds = {group: ledger.billed_seconds(group) for group in (DURABLE, INGEST)}
    seconds[MAINTENANCE] = counts["timer runs"] * LEAST_BILLED
    found = [
        ("executions", triggers + durable, "counted: triggers, episodes, activities, entity operations"),
        *((f"  {name}", counts[name], "") for name in ("orchestrator episodes", "activities", "entity operations")),
        ("  events delivered, timer runs", triggers, ""),
        ("billed seconds", sum(seconds.values()), "an instance per scale group, each spell at work 1 s at least"),
        ("GB-s", sum(seconds.values()) * MEMORY, "of instances of 2 GB"),
        ("Event Grid operations", 2 * counts["events delivered"], "published and delivered, up to 64 kB each"),
    ]
    places = (("blobs", "blob"), ("arm", "ARM"), ("cluster", "API server"))
    kinds = ("reads", "writes", "lists", "deletes", "others")
    doors = ((f"{named} {kind}", counts[f"{place} {kind} by functions"]) for place, named in places for kind in kinds)
    found += [(what, number, "by the functions") for what, number in doors if number]
    messages, episodes = counts["durable messages"], counts["orchestrator episodes"]
    found += [
        ("durable messages", messages, "actions of a Durable Task Scheduler"),
        ("queue operations for them", 3 * messages, "put, get and delete of each"),
        ("table operations for them", 3 * episodes, "history read and written, instance updated, per episode"),
        ("history rows", counts["history rows"], ""),
        ("log lines", counts["log lines"], "of the app itself"),
        ("log kB", counts["log bytes"] / 1000, "of the app itself, as text"),
    ]
    return found


def main() -> int:
    """Play both days; the last line is the figure."""
    parser = argparse.ArgumentParser(prog="python -m bench.cost", description=__doc__)
    parser.add_argument("--trace", type=Path, help="pods of the busy day; without it only the idle day is played")
    trace = parser.parse_args().trace
    logging.basicConfig(level=logging.CRITICAL)
    logging.getLogger("sluice").setLevel(logging.INFO)
    logging.getLogger("sluice").propagate = False
    days = {"idle": idle_day()}
    if trace is not None:
        days["busy"] = busy_day(trace)
    figures = {}
    for name, (ledger, told) in days.items():
        print(f"{name} day: {told}")
        for what, number, how in lines(ledger):
            print(f"  {what:34} {number:12,.0f}  {how}")
            figures[name, what.strip()] = number
    polls = POLLERS * 86_400 / POLLED_EVERY
    print(f"beside that, while an instance runs: {POLLERS} queues polled every {POLLED_EVERY:g} s, {polls:,.0f} a day")
    parts = ("executions", "blob reads", "blob writes", "ARM reads", "ARM writes")
    for name in days:
        told = ", ".join(f"{figures.get((name, part), 0):,.0f} {part}" for part in parts)
        print(f"{name} day: {told}")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
