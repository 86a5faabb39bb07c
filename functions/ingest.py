"""The door: events come in, snapshots are stored, orchestrations are started under the events' own ids.

A bad event never raises: Event Grid would send its whole batch again and hold back the good ones. It is put among the
dead letters, with its reason, and done with. What raises is a fault of ours that a redelivery can cure.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import azure.functions as func
import orjson

from functions.durable import Json, Registry, Starter, start_event
from functions.evictions import evictions_in, is_ours, preempted_vm
from functions.outcomes import LATER, outcome, tell
from functions.retirement_steps import cordon_at_once
from functions.wishes import operation_id
from functions.world import World
from shared.adapters.errors import NotFound, Rejected
from shared.model import Snapshot
from shared.names import DEAD_LETTER_CONTAINER, NODE_EVICTING, snapshot_container
from shared.state.ledger import stamp
from shared.wire.events import ClaimCheck, EventProblem, ParsedEvent, dead_letter_blob, parse_event, read_snapshot

AT_ONCE = 4  # nodes of one event that are cordoned by the door itself: the API server takes some 30 ms for each
API_DOWN_FOR = timedelta(seconds=30)  # no such cordon is tried after one that the API server did not answer
CLUSTERS_KNOWN_FOR = timedelta(seconds=60)  # a new cluster's first event may be dead-lettered for as long as this


class Door:
    """What `ingest` does, apart from how Functions calls it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._clusters: tuple[datetime, list[str]] | None = None
        self._cordon_at_once = outcome(world, cordon_at_once)
        self._no_cordons_before = datetime.min.replace(tzinfo=UTC)

    async def take(self, body: Json, client: Starter) -> str:
        """What became of one event: "admitted" or the reason of its refusal."""
        now = self._world.services.clock()
        if vm := preempted_vm(body):
            return await self._preempted(vm, str(body.get("id")), client, now)
        try:
            event, snapshot = self._read(body, now)
        except EventProblem as problem:
            self._refuse(body, problem, now)
            return problem.reason
        blind = await self._evictions(event, snapshot, now, client)
        if snapshot is not None and not blind:
            await self._admit(event, snapshot, client)
        tell("event", cluster=event.cluster, type=event.type, id=event.id, blind=blind)
        return "admitted"

    def _read(self, body: Json, now: datetime) -> tuple[ParsedEvent, Snapshot | None]:
        event = parse_event(body, self._known(now), account_url=self._world.services.account_url)
        return event, read_snapshot(event, self._claimed(event))

    def _known(self, now: datetime) -> list[str]:
        if self._clusters is None or now - self._clusters[0] > CLUSTERS_KNOWN_FOR:
            self._clusters = now, self._world.clusters()
        return self._clusters[1]

    def _claimed(self, event: ParsedEvent) -> bytes | None:
        if not event.blob:
            return None
        try:
            return self._world.store.get(snapshot_container(event.cluster), event.blob).data
        except NotFound as error:
            raise EventProblem("ClaimRefused", [f"{event.blob}: there is no such blob"]) from error

    def _refuse(self, body: Json, problem: EventProblem, now: datetime) -> None:
        name, letter = dead_letter_blob(body, problem, now)
        self._world.store.put(DEAD_LETTER_CONTAINER, name, letter)
        tell("dead letter", reason=problem.reason, blob=name)

    async def _admit(self, event: ParsedEvent, snapshot: Snapshot, client: Starter) -> None:
        name = f"{event.data.epoch:010}-{event.data.sequence:012}-{event.id}.json"
        came = event.data.snapshot
        self._world.put_snapshot(name, snapshot, b"" if isinstance(came, ClaimCheck) else orjson.dumps(came))
        order = {
            "cluster": event.cluster,
            "event": event.id,
            "epoch": event.data.epoch,
            "sequence": event.data.sequence,
            "snapshot": name,
        }
        await start_event(client, "admit", event.id, order)

    async def _evictions(self, event: ParsedEvent, snapshot: Snapshot | None, now: datetime, client: Starter) -> bool:
        """Start a saga for each node that Azure takes away; True when the event's own snapshot does not show them."""
        if event.type != NODE_EVICTING:
            return False
        sagas, all_shown = evictions_in(event.cluster, event.data.detail, snapshot, event.data.observed_at, now)
        for saga in sagas:
            await start_event(client, saga["name"], saga["id"], saga["input"])
        self._cordon(sagas, now)
        return not all_shown

    def _cordon(self, sagas: list[Json], now: datetime) -> None:
        """Half a minute is what there is: the first cordons do not wait for their sagas, which find them done. Where
        the API server does not answer, nobody is kept waiting for it here."""
        if now < self._no_cordons_before:
            return
        for saga in sagas[:AT_ONCE]:
            answer = self._cordon_at_once({**saga["input"], "now": stamp(now)})
            if not answer["ok"] and answer["kind"] == LATER:
                self._no_cordons_before = now + API_DOWN_FOR
                return

    async def _preempted(self, vm: str, event: str, client: Starter, now: datetime) -> str:
        """Azure's own word that a Spot VM is gone: of a whole subscription, so most are none of ours."""
        mine = [cluster for cluster in self._known(now) if self._owns(cluster, vm)]
        for cluster in mine:
            order = {"cluster": cluster, "vm": vm}
            await start_event(client, "find_evicted", f"find:{operation_id(cluster, vm, event)}", order)
        tell("spot vm taken", vm=vm, clusters=mine)
        return "admitted" if mine else "nobody's"

    def _owns(self, cluster: str, vm: str) -> bool:
        try:
            return is_ours(self._world.config(cluster), vm)
        except Rejected:
            return False  # one cluster's invalid file is no reason to have the event again


def body_of(event: func.CloudEvent | func.EventGridEvent) -> Json:
    """The event as it was sent, unknown attributes too, since a dead letter keeps them. Anything but a CloudEvent is
    handed on as it is, to be refused by name."""
    if not isinstance(event, func.CloudEvent):
        return {"id": event.id, "type": event.event_type, "subject": event.subject, "data": event.get_json()}
    attributes = {
        **event.extension_attrs,
        "specversion": event.specversion,
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "subject": event.subject,
        "time": event.time.isoformat() if event.time else None,
        "data": event.get_json(),
    }
    return {name: value for name, value in attributes.items() if value is not None}


def registry(world: World) -> Registry:
    """The Event Grid trigger."""
    door = Door(world)
    made = Registry()

    async def ingest(event: func.CloudEvent, client: Starter) -> None:
        await door.take(body_of(event), client)

    made.event_grid(ingest)
    return made
