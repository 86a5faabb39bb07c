"""What observing pools would have done, in the trail: the proof that a rollout is ready, read afterwards."""

from __future__ import annotations

from functions import trail
from functions.outcomes import Json
from functions.wishes import operation_id, why_bought
from functions.world import World
from shared.model import Config, Mode, Plan

WOULD_GO = "Observe: would be retired, "  # as `shared.planning.retirement` begins the reason of such a node


def note_wishes(world: World, order: Json, config: Config, decided: Plan) -> None:
    """State what would have been bought and who would have gone. The same wish, made anew with every event while pods
    wait, is stated once in the hour; that a node would go, once a day."""
    observing = {pool.name for pool in config.pools if pool.mode is Mode.OBSERVE}
    if not observing:
        return
    added = {delta.pool: delta.add for delta in decided.deltas}
    for pool in sorted(observing):
        number = added.get(pool, 0) + decided.top_up.get(pool, 0)
        if number:
            op = operation_id(config.cluster, "would", pool, order["now"][:13], str(number))
            why = f"{number} more, {why_bought(decided, pool)}"
            trail.note_growth(world, {**order, "op": op, "pool": pool}, trail.WOULD_BUY, why, rule="mode observe")
    for node, reason in decided.kept.items():
        if reason.startswith(WOULD_GO):
            op = operation_id(config.cluster, "would", node, order["now"][:10])
            why = reason.removeprefix(WOULD_GO)
            trail.note_node(world, {**order, "op": op, "node": node}, trail.WOULD_GO, why, rule="mode observe")
