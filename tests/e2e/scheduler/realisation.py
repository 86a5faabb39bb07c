"""What becomes of a plan when the scheduler places the pods as it likes, and what carrying the plan over makes of that.

Pods are not pinned. The planned nodes are made, the scheduler binds what it finds room for, and what is left over is
planned for again, by the activities of the function app itself: `make_plan` decides, `open_nodes` carries over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

from functions import quotas
from functions.opening import open_nodes
from functions.planning import make_plan
from functions.services import Services
from functions.world import World
from shared.adapters.errors import NotFound
from shared.adapters.protocols import Blob
from shared.model import Ledger, Snapshot
from shared.names import CONFIG_CONTAINER
from shared.planning.plan import plan
from shared.state.ledger import ClusterLedger
from tests.e2e.scheduler.draws import CLUSTER, ROOMY, Case, Json, draw, key, node_of
from tests.e2e.scheduler.hands import Hands

MOST_LOOKS = 12
"""Decisions in a row; who is not done by then never will be."""


@dataclass(frozen=True, slots=True)
class Realised:
    """What a plan came to: prices per hour, `rounds` of buying, and the pods left over after the first of them.

    `stranded`: planned for, but where the scheduler has put the others no node whatever takes them any more, and the
    next plan says so. `never_bound`: planned for, not refused since, and yet without a node.
    """

    seed: int
    planned: float
    paid: float
    rounds: int
    pods: int
    left_over: int
    stranded: tuple[str, ...]
    never_bound: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """Of the price that was paid to the one that was planned."""
        return self.paid / self.planned


def realise(hands: Hands, seed: int, *, carried: bool) -> Realised | None:
    """The cluster of a seed; None when nothing had to be bought there. Leaves the cluster empty."""
    try:
        return _Run(hands, draw(seed, ROOMY), carried=carried).result()
    finally:
        hands.empty()


class _Run:
    def __init__(self, hands: Hands, case: Case, *, carried: bool) -> None:
        self._hands, self._case, self._carried = hands, case, carried
        self._rng = Random(case.seed + 2_000_000)
        store = Shelf()
        store.put(CONFIG_CONTAINER, f"{CLUSTER}.yaml", case.pools_file.encode())
        self._world = World(Services(_no_compute, lambda _: hands.api, lambda: store, lambda: datetime.now(UTC)))
        self._made = 0
        self._has_renewed = False
        self._nodes = 0

    def result(self) -> Realised | None:
        self._fill()
        refused: set[str] | None = None
        planned, paid, rounds, left_over = 0.0, 0.0, 0, 0
        for _ in range(MOST_LOOKS):
            decided = self._decide()
            if refused is None:
                refused, planned = _refused(decided), decided["cost_per_hour"]
                self._withdraw(refused)
            bought = self._buy(decided["deltas"])
            if not bought and not decided["openings"] and not self._renewed(refused | _refused(decided)):
                break
            rounds, paid = rounds + bool(bought), paid + decided["cost_per_hour"]
            waiting = self._hands.quiet()
            if rounds == 1 and (not self._carried or not bought):
                left_over = len(_of_plan(waiting, refused))
        if not planned:
            return None
        unbound = _of_plan(self._hands.unbound(), refused or set())
        stranded = tuple(name for name in unbound if name in _refused(decided))
        never = tuple(name for name in unbound if name not in stranded)
        count = len(self._case.waiting) - len(refused or ())
        return Realised(self._case.seed, planned, paid, rounds, count, left_over, stranded, never)

    def _fill(self) -> None:
        """What is there, then the pods that wait; the scheduler has its say about them before anybody plans."""
        self._hands.fill(self._case)
        for pod in self._case.running + self._case.waiting:
            self._hands.create_pod(pod)
        self._hands.quiet()

    def _decide(self) -> Json:
        """The plan as the app stores it; nodes that can be opened are."""
        self._made += 1
        name = f"look-{self._made}"
        there = self._case.snapshot(self._hands.seen())
        self._world.put_snapshot(name, there)
        now = datetime.now(UTC).isoformat()
        view = ClusterLedger().answer()
        order = {"cluster": CLUSTER, "holder": "e2e", "generation": self._made, "view": view, "snapshot": name}
        made = make_plan(self._world, {**order, "now": now, quotas.DONE: True})  # there is no Azure here to ask
        decided = self._world.document_or(CLUSTER, made["plan"], self._nothing_to_do(there))
        if decided["openings"]:
            open_nodes(self._world, {"cluster": CLUSTER, "plan": made["plan"]})
        return decided

    def _renewed(self, refused: set[str]) -> bool:
        """Make those anew, once, who are without a node though one that is there takes them, and say whether any were.

        The scheduler does not always try a pod again when company of another namespace has come that it waited for,
        but by a flush of its queues after five minutes.
        """
        waiting = [pod for pod in self._hands.unbound() if _of_plan([pod], refused)]
        if self._has_renewed or not waiting:
            return False
        self._has_renewed = True
        self._withdraw({key(pod) for pod in waiting})
        written = {key(pod): pod for pod in self._case.waiting}
        for pod in waiting:
            self._hands.create_pod(written[key(pod)])
        return True

    def _withdraw(self, names: set[str]) -> None:
        """Whom the first plan refuses goes: what later plans buy is to be for the same pods."""
        for name in sorted(names):
            namespace, _, pod = name.partition("/")
            self._hands.api.delete(f"/api/v1/namespaces/{namespace}/pods/{pod}", grace_seconds=0)

    def _nothing_to_do(self, snapshot: Snapshot) -> Json:
        """The app stores no plan that it need not act on; what it would say of pods is made again."""
        made = plan(snapshot, self._case.config, Ledger(), datetime.now(UTC))
        unserved = [
            {"pods": [{"namespace": pod.namespace, "name": pod.name} for pod in each.pods]} for each in made.unserved
        ]
        return {"deltas": [], "openings": [], "cost_per_hour": made.cost_per_hour, "unserved": unserved}

    def _buy(self, deltas: Iterable[Json]) -> int:
        """The nodes join in any order."""
        pools = [delta["pool"] for delta in deltas for _ in delta["nodes"]]
        self._rng.shuffle(pools)
        self._hands.add_nodes([self._node(name) for name in pools])
        return len(pools)

    def _node(self, pool_name: str) -> Json:
        self._nodes += 1
        of = self._case.config.pool(pool_name)
        assert of is not None
        name = f"new-{self._case.seed}-{pool_name}-{self._nodes}"
        return node_of(of, name, self._rng, starting=self._carried)


class Shelf:
    """Blobs, in memory."""

    def __init__(self) -> None:
        self._blobs: dict[tuple[str, str], bytes] = {}

    def get(self, container: str, name: str) -> Blob:
        """See `BlobStore`."""
        if (container, name) not in self._blobs:
            raise NotFound(f"no blob {container}/{name}")
        data = self._blobs[container, name]
        return Blob(data, hashlib.sha256(data).hexdigest())

    def get_if_changed(self, container: str, name: str, etag: str) -> Blob | None:
        """See `BlobStore`."""
        found = self.get(container, name)
        return None if found.etag == etag else found

    def put(self, container: str, name: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        """See `BlobStore`."""
        self._blobs[container, name] = data
        return self.get(container, name).etag

    def delete(self, container: str, name: str) -> None:
        """See `BlobStore`."""
        self._blobs.pop((container, name), None)

    def list(self, container: str, prefix: str = "") -> list[str]:
        """See `BlobStore`."""
        return sorted(name for inside, name in self._blobs if inside == container and name.startswith(prefix))


def _refused(decided: Json) -> set[str]:
    return {f"{pod['namespace']}/{pod['name']}" for group in decided["unserved"] for pod in group["pods"]}


def _of_plan(pods: Iterable[Json], refused: set[str]) -> list[str]:
    return [key(pod) for pod in pods if key(pod) not in refused and pod["metadata"]["name"].startswith("wait-")]


def _no_compute(_: Any) -> Any:
    raise AssertionError("nodes are made by the test itself")
