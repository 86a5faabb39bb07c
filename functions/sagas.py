"""The sagas' orchestrators under one roof; their activities register themselves."""

from __future__ import annotations

from functions.durable import Registry
from functions.evicting import replace_evicted
from functions.growing import grow_pool, undo_growth
from functions.retiring import drain_node, retire_node


def registry() -> Registry:
    """Growing, retiring, replacing."""
    made = Registry()
    made.orchestrator(grow_pool, undo_growth, retire_node, drain_node, replace_evicted)
    return made
