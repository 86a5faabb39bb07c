"""Rules over several nodes that keep an idle one: the mix of Spot and on-demand, and headroom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from shared.model import Config, Ledger, NodeView, PodShape, Snapshot
from shared.planning.bounds import staying
from shared.planning.headroom import headroom_pools, reserved, spare_of, spend
from shared.planning.mix import MixState, mix_states

Taken = Mapping[str, Mapping[PodShape, int]]


class Keeper:
    """Asked for one node after the other; what goes is not counted for the next.

    `added` nodes by pool are bought by the same plan: Spot ones need their on-demand nodes, on-demand ones are not
    counted on before they are there.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        config: Config,
        ledger: Ledger,
        now: datetime,
        taken: Taken,
        added: Mapping[str, int],
    ) -> None:
        self._pools = [pool.name for pool in config.pools]
        self._number = {name: number for number, name in enumerate(self._pools)}
        self.reserved = reserved(snapshot, config, ledger, taken)
        self._spare = spare_of(snapshot, config, ledger)
        self._spare_in = {pool.name for pool in headroom_pools(config)} if self._spare else frozenset()
        self._take_room(snapshot, taken)
        counts = staying(snapshot, ledger, now) if config.mixes else {}
        self._mixes = [_with_spot(state, self._pools, added) for state in mix_states(config, config.pools, counts)]

    def refusal(self, node: NodeView) -> str:
        """Why the node has to stay, or ""."""
        number = self._number[node.pool]
        told = (mix.refusal_to_go(number) for mix in self._mixes)
        return next((why for why in told if why), "") or self._short(node)

    def goes(self, node: NodeView) -> None:
        """It was decided that the node goes."""
        number = self._number[node.pool]
        self._mixes = [mix.without(number) for mix in self._mixes]
        if self._spare is not None and node.pool in self._spare_in:
            self._spare.goes(node)

    def _short(self, node: NodeView) -> str:
        if self._spare is None or node.pool not in self._spare_in or not node.ready:
            return ""
        return self._spare.refusal(node)

    def _take_room(self, snapshot: Snapshot, taken: Taken) -> None:
        if self._spare is None:
            return
        pool_of = {node.name: node.pool for node in snapshot.nodes}
        for name, content in taken.items():
            if pool_of.get(name) in self._spare_in:
                for shape, pods in content.items():
                    spend(self._spare, dict(shape.requests), pods)


def _with_spot(state: MixState, pools: list[str], added: Mapping[str, int]) -> MixState:
    more = sum(added.get(pools[number], 0) for number in state.spot)
    return replace(state, spot_now=state.spot_now + more)
