"""Pauses: a person says "hands off", for a pool or a cluster, for a while or until somebody says "go on".

A pause is a small document beside the plans, read at every decision like the pools file, and stricter than it: who is
paused is in mode `paused`. It differs from the file's own `paused` in one thing. What was begun reaches a safe state:
what Azure was asked for is watched to its end and cleared up after, and nothing is left cordoned on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import orjson

from functions.outcomes import Json
from shared.adapters.errors import NotFound, StaleWrite
from shared.adapters.protocols import BlobStore
from shared.model import Config, Mode
from shared.names import plan_container

PAUSES = "pauses.json"
WHOLE = "*"  # the entry that stands for the whole cluster; no pool can have this name
LONGEST = timedelta(days=90)
SHORTEST = timedelta(minutes=1)
WRITES = 4
MOST_TEXT = 200  # characters of a reason or a name


def active(pauses: Json, now: datetime) -> dict[str, Json]:
    """Those that are not over: {pool or WHOLE: {"by", "reason", "at", "until"}}; "until" may be ""."""
    return {
        name: entry
        for name, entry in pauses.items()
        if not entry["until"] or datetime.fromisoformat(entry["until"]) > now
    }


def applied(config: Config, pauses: Mapping[str, Json]) -> Config:
    """The pools file with these pauses on top."""
    if not pauses:
        return config
    whole = WHOLE in pauses
    pools = tuple(replace(pool, mode=Mode.PAUSED) if whole or pool.name in pauses else pool for pool in config.pools)
    return replace(config, mode=Mode.PAUSED if whole else config.mode, pools=pools)


def entry_of(order: Json, now: datetime) -> Json:
    """A pause as it is kept, from {by?, reason?, seconds?}. Raises ValueError with one line that names the field."""
    texts = {name: order.get(name) or "" for name in ("by", "reason")}
    for name, text in texts.items():
        if not isinstance(text, str) or len(text) > MOST_TEXT:
            raise ValueError(f"{name}: {text!r}: give a text of at most {MOST_TEXT} characters")
    return {**texts, "at": now.isoformat(), "until": _until(order.get("seconds"), now)}


def _until(seconds: object, now: datetime) -> str:
    if seconds is None:
        return ""
    bounds = f"give between {SHORTEST.total_seconds():.0f} and {LONGEST.total_seconds():.0f}"
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ValueError(f"seconds: {seconds!r} is no number of seconds: {bounds}, or leave it out")
    if not SHORTEST.total_seconds() <= seconds <= LONGEST.total_seconds():
        raise ValueError(f"seconds: {seconds!r}: {bounds}, or leave it out")
    return (now + timedelta(seconds=seconds)).isoformat()


def changed(store: BlobStore, cluster: str, now: datetime, put: Mapping[str, Json], drop: frozenset[str]) -> Json:
    """Add and take away pauses, those that are over with them; returns what is in force then. Raises StaleWrite when
    others keep writing."""
    container = plan_container(cluster)
    for _ in range(WRITES):
        known, etag = _read(store, container)
        pauses = {name: entry for name, entry in active(known, now).items() if name not in drop} | dict(put)
        if pauses == known:
            return pauses
        try:
            store.put(container, PAUSES, orjson.dumps(pauses), if_match=etag, if_absent=not etag)
        except StaleWrite:
            continue
        return pauses
    raise StaleWrite(f"the pauses of cluster {cluster} were changed by others each time")


def _read(store: BlobStore, container: str) -> tuple[Json, str]:
    try:
        blob = store.get(container, PAUSES)
    except NotFound:
        return {}, ""
    found: Json = orjson.loads(blob.data)
    return found, blob.etag
