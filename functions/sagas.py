"""The sagas' orchestrators under one roof; their activities register themselves."""

from __future__ import annotations

from functions.durable import Registry
from functions.evicting import clear_deallocated, replace_evicted
from functions.growing import ask_azure, grow_pool, look_at_growth, undo_growth
from functions.removing import leave_pool, remove_nodes
from functions.retiring import drain_node, retire_node


def registry() -> Registry:
    """Growing, retiring, replacing."""
    made = Registry()
    made.orchestrator(grow_pool, ask_azure, look_at_growth, undo_growth)
    made.orchestrator(retire_node, drain_node, replace_evicted, clear_deallocated)
    made.orchestrator(leave_pool, remove_nodes)
    return made
