"""Growths whose saga is gone: somebody has to say what came of them, or they count as supply until they expire."""

from __future__ import annotations

from functions.durable import Json, Registry, Starter, is_running, start_once
from functions.outcomes import tell
from shared.state.failures import SAGA_LOST


async def resume_growths(order: Json, client: Starter) -> Json:
    """{cluster, growths}: for each that has no saga, one that looks at what there is of it, and plans the rest anew.

    A saga that was never started has asked Azure for nothing, one that died may have: its instances tell.
    """
    resumed = []
    for growth in order["growths"]:
        if is_running(await client.get_status(f"grow:{growth['op']}")):
            continue
        operation = {"ok": False, "asked": True, "code": SAGA_LOST, "message": "", "granted": growth["add"]}
        if await start_once(client, "grow_pool", f"grow:{growth['op']}:resumed", {**growth, "operation": operation}):
            resumed.append(growth["op"])
            tell("growth resumed", cluster=order["cluster"], pool=growth["pool"], op=growth["op"])
    return {"ok": True, "resumed": resumed}


def registry() -> Registry:
    """The activity that looks for them."""
    made = Registry()
    made.client_activity(resume_growths)
    return made
