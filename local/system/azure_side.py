"""Azure's part of the outside: ARM, blob storage and the Event Grid topic, on either clock and for whatever cluster.

`local.system.stand_ins` puts the Kubernetes stand-in beside it. Beside a real API server it is used as it is, and a
`MachinesBridge` brings its machines up as nodes there.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

import orjson

from local.arm.machines import Machine
from local.arm.settings import ArmLatencies, Quirks
from local.arm.stand_in import ArmStandIn
from local.arm.trouble import ArmTrouble
from local.blob_storage import BlobStandIn, StoredBlob
from local.checker.evidence import AzureEvidence, PoolFacts
from local.event_grid import EventFaults, EventGridTopic, Subscription, TopicOptions
from local.system.chronicle import Chronicle, Recorded
from local.timeline import Timeline
from local.web import Request, Response
from shared.adapters.azure_compute import DISK_API
from shared.model import Config, Mode, PoolKind, Priority
from shared.names import CONFIG_CONTAINER, DEAD_LETTER_CONTAINER, POOL_LABEL

INGEST = "ingest"
INGEST_PATH = f"/runtime/webhooks/EventGrid?functionName={INGEST}&code=local"
Deliver = Callable[[Request], Response]


class AzureSide:
    """`text` is the pools file as its owner wrote it, `config` its meaning. Thread-safe by the timeline's lock.

    The pools' scale sets are made by `add_pools`, when whoever boots machines has subscribed.
    """

    def __init__(  # noqa: PLR0913 - all but the first three by keyword, and most left alone
        self,
        timeline: Timeline,
        text: str,
        config: Config,
        *,
        seed: int = 0,
        latencies: ArmLatencies | None = None,
        quirks: Quirks | None = None,
        events: EventFaults | None = None,
        trouble: ArmTrouble | None = None,
        topic_key: str = "local",
        blobs: Path | None = None,
        executor: Executor | None = None,
    ) -> None:
        """`topic_key` guards the topic. `blobs`: a folder that keeps them beyond the process. `executor`: deliveries
        are made on its threads, as they must be over HTTP. `quirks` None draws them by seed."""
        self.timeline, self.config = timeline, config
        self.chronicle = Chronicle(timeline)
        self.begun = timeline.now()
        with timeline.lock:
            self.arm = ArmStandIn(timeline, seed=seed, latencies=latencies, quirks=quirks, trouble=trouble)
            self.blobs = BlobStandIn(timeline, directory=blobs)
            options = TopicOptions(seed=seed, key=topic_key, faults=events or EventFaults())
            self.topic = EventGridTopic(timeline, options, dead_letter=self._dead_letter, executor=executor)
            self._store_pools_file(text)
        self.arm_door = Recorded(self.arm, self.chronicle, "arm")

    def add_pools(self, *, flexible: frozenset[str] = frozenset()) -> None:
        """Make the scale sets with their minimums running; `flexible` names pools of that mode."""
        with self.timeline.lock:
            self.arm.add_pools(self.config, flexible=flexible)

    def connect(self, deliver: Deliver, url: str = f"http://functions{INGEST_PATH}") -> None:
        """Subscribe the function `ingest`, reached by `deliver`. Raises HandshakeFailed."""

        def delivered(request: Request) -> Response:
            response = deliver(request)
            with self.timeline.lock:
                self.chronicle.note("delivered", request.body, str(response.status))
            return response

        self.topic.subscribe(Subscription(INGEST, url, delivered, max_events_per_batch=100))

    def set_pools_file(self, text: str) -> None:
        """Put another pools file in place, as its owner would."""
        with self.timeline.lock:
            self._store_pools_file(text)

    def preempt(self, node: str, notice: float = 30.0) -> Machine | None:
        """Azure takes a Spot VM away, by its node's name; None when there is none of that name."""
        with self.timeline.lock:
            return self.arm.preempt(node, notice)

    def attach_persistent_volume(self, node: str, name: str) -> str:
        """A CSI driver makes a disk for the volume `name` and attaches it to the VM of a node; returns the disk's
        resource id. Raises ValueError when there is no such VM."""
        with self.timeline.lock:
            vm = self.arm.cloud.estate.find_vm(node)
            if vm is None:
                raise ValueError(f"attach-volume: no VM carries a node {node!r}")
            group = vm.id.split("/providers/")[0]
            disk_id = f"{group}/providers/Microsoft.Compute/disks/{name}"
            body = {
                "location": vm.location,
                "tags": {"kubernetes.io-created-for-pv-name": name},
                "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 8},
            }
            made = self.arm.handle(Request("PUT", disk_id, {"api-version": DISK_API}, {}, orjson.dumps(body)))
            if made.status >= 400:
                raise ValueError(f"attach-volume: {made.body.decode()}")
            self.arm.attach_disk(vm.id, disk_id)
            return disk_id

    def machines_now(self) -> dict[str, int]:
        """VMs that exist, by pool."""
        counts = {pool.name: 0 for pool in self.config.pools}
        with self.timeline.lock:
            for vm in self.arm.truth.live_vms():
                if (pool := self.pool_of(vm.resource, vm.tags)) in counts:
                    counts[pool] += 1
        return counts

    def pool_of(self, resource: str, tags: dict[str, str]) -> str:
        """The pool that a VM belongs to, going by its scale set, or by its tags where it stands alone; "" for none."""
        for pool in self.config.pools:
            if pool.kind is not PoolKind.VM and pool.resource.lower() == resource.lower():
                return pool.name
        theirs = tags.get("sluice-cluster", self.config.cluster) != self.config.cluster
        return "" if theirs else tags.get("sluice-pool", "")

    def dead_letters(self) -> dict[str, StoredBlob]:
        """Events that nobody could take, by blob name."""
        return dict(self.blobs.containers.get(DEAD_LETTER_CONTAINER, {}))

    def azure_evidence(self, *, orchestrations: tuple[str, ...] = (), host: tuple[str, ...] = ()) -> AzureEvidence:
        """What can be judged without the cluster; the two arguments are what the Functions host has to say."""
        with self.timeline.lock:
            return AzureEvidence(
                begun=self.begun,
                now=self.timeline.now(),
                arm=self.arm.truth,
                pools=self.pool_facts(),
                quota=self.arm.cloud.quota,
                orchestrations=orchestrations,
                host=host,
                dead_letters=tuple(sorted(self.dead_letters())),
            )

    def pool_facts(self) -> tuple[PoolFacts, ...]:
        """The pools, in the checker's words."""
        return tuple(
            PoolFacts(
                pool.name,
                pool.resource,
                pool.minimum,
                pool.maximum,
                dict(pool.allocatable),
                {POOL_LABEL: pool.name, **pool.labels},
                tuple((taint.key, taint.value, taint.effect) for taint in pool.taints),
                cluster=self.config.cluster,
                sku=pool.sku,
                spot=pool.priority is Priority.SPOT,
                headroom=pool.headroom,
                acts=Mode.OBSERVE not in (self.config.mode, pool.mode)
                and Mode.PAUSED not in (self.config.mode, pool.mode),
            )
            for pool in self.config.pools
        )

    def _store_pools_file(self, text: str) -> None:
        self._put_blob(CONFIG_CONTAINER, f"{self.config.cluster}.yaml", text.encode())

    def _dead_letter(self, name: str, data: bytes) -> None:
        self._put_blob(DEAD_LETTER_CONTAINER, name, data)

    def _put_blob(self, container: str, name: str, data: bytes) -> None:
        self.blobs.handle(Request("PUT", f"/{container}", {"restype": "container"}, {}))
        response = self.blobs.handle(Request("PUT", f"/{container}/{name}", {}, {"x-ms-blob-type": "BlockBlob"}, data))
        if response.status != 201:
            raise RuntimeError(f"the storage stand-in refused {container}/{name}: {response.status}")
