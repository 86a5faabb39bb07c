"""The checker that looks on: each rule is judged at the step that may break it, from ground truth alone.

A rule that needs the whole picture is judged at the end (`local.checker.rules`); everything else here, at the price of
what changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from local.arm.quota import Quota
from local.arm.truth import Truth as ArmTruth
from local.checker.deliveries import Deliveries
from local.checker.evidence import PoolFacts
from local.checker.machines import Machines
from local.checker.nodes import Nodes
from local.checker.notebook import Notebook
from local.checker.purchases import Purchases
from local.kube.stand_in import KubernetesStandIn
from local.timeline import Timeline
from local.web import Handler, Request, Response


class Watch:
    """Looks on from the moment it is made; what stands then is taken for given. Needs the timeline's lock."""

    def __init__(
        self,
        timeline: Timeline,
        arm: ArmTruth,
        quota: Quota,
        cluster: KubernetesStandIn,
        pools: tuple[PoolFacts, ...],
        *,
        swaps: bool = False,
        share: float = 1.0,
    ) -> None:
        """`swaps`: nodes may be exchanged for cheaper ones; `share`: of all nodes, as many may be emptied at once."""
        self.book = Notebook(timeline, timeline.now(), cluster.store, pools)
        self.book.share = share
        self.nodes = Nodes(self.book)
        self.purchases = Purchases(self.book, swaps=swaps)
        self.machines = Machines(self.book, self.nodes, quota, self.purchases)
        for vm in arm.live_vms():
            self.machines.note("made", vm)
        self.purchases.begin()
        self.deliveries = Deliveries(self.book)
        arm.on_record(self.machines.note)
        arm.on_record(self.nodes.note_azure)
        cluster.store.subscribe(self.nodes.note)
        cluster.store.subscribe(self.purchases.note)
        cluster.truth.on_record(self.nodes.note_record)

    @property
    def violations(self) -> tuple[str, ...]:
        """What was seen so far, in order; each once."""
        return tuple(self.book.violations)

    def door(self, inner: Handler, who: str) -> Handler:
        """A door to the cluster for a part of Sluice: what goes through it is that part's doing."""
        return _Signed(inner, who, self.book)

    def modes(self, modes: Mapping[str, str]) -> None:
        """The owner has changed how far Sluice may go in these pools; it holds from now on."""
        self.book.modes.update(modes)

    def step(self, last_fault: datetime | None = None) -> None:
        """Judge what only time breaks; `last_fault` is when the outside misbehaved last."""
        self.machines.check_minimums(last_fault)


class _Signed:
    def __init__(self, inner: Handler, who: str, book: Notebook) -> None:
        self._inner, self._who, self._book = inner, who, book

    def handle(self, request: Request) -> Response:
        """See `Handler.handle`."""
        if request.method == "GET":
            return self._inner.handle(request)
        with self._book.acting(self._who):
            return self._inner.handle(request)
