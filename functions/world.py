"""What activities share: the services, and the pools files and pauses as last read.

A pools file is asked for at every decision, by ETag: a change of mode holds from the next step of a running saga on. A
new version that is invalid is refused, and the last good one stays in force, also over a restart.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import cast

import orjson

from functions.lacking import LACKING, Noting, noted, told
from functions.outcomes import LOG, Json
from functions.pausing import PAUSES, active, applied
from functions.services import Services
from shared.adapters.errors import NotFound, OutsideError, Rejected
from shared.adapters.protocols import BlobStore, ClusterApi, Compute
from shared.model import Config, Mode, Pool, PoolKind, Snapshot
from shared.names import CONFIG_CONTAINER, plan_container, snapshot_container
from shared.settings.config import ConfigError, parse_config
from shared.settings.config_schema import Problem
from shared.settings.vm_template import template_problems
from shared.wire.snapshot_codec import decode, encode

CONFIG_SUFFIX = ".yaml"
LEFT_ALONE = 60.0  # seconds, at least, that nothing avoidable is asked of a budget's region after a refusal
LAST_GOOD = "last-good.yaml"
SNAPSHOTS_KEPT = 4  # just stored, and mostly read next by the same process; a name never changes what it stands for


class World:
    """The outside, as the activities of one function app see it."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._configs: dict[str, tuple[str, Config]] = {}
        self._refused: dict[str, tuple[str, ...]] = {}
        self._snapshots: dict[tuple[str, str], Snapshot] = {}
        self._not_before: dict[str, datetime] = {}
        self._pauses: dict[str, tuple[str, Json]] = {}
        self.stated: dict[str, None] = {}  # what `functions.trail` knows to be written

    @property
    def store(self) -> BlobStore:
        """The app's blobs."""
        return self.services.store()

    def api(self, cluster: str) -> ClusterApi:
        """The cluster's API server."""
        api = Noting(self.services.cluster(cluster), lambda message: self._note_lack(cluster, message))
        return cast("ClusterApi", api)

    def throttled(self, budget: str, now: str, seconds: float) -> None:
        """See `functions.outcomes.Patient`. What other processes hear is known to the budget itself."""
        until = datetime.fromisoformat(now) + timedelta(seconds=max(LEFT_ALONE, seconds))
        self._not_before[budget] = max(until, self._not_before.get(budget, until))

    def is_throttled(self, budget: str, now: str) -> bool:
        """Whether a request that is no necessity had better wait."""
        return budget in self._not_before and datetime.fromisoformat(now) < self._not_before[budget]

    def clusters(self) -> list[str]:
        """Every cluster that has a pools file."""
        names = self.store.list(CONFIG_CONTAINER)
        return [name.removesuffix(CONFIG_SUFFIX) for name in names if name.endswith(CONFIG_SUFFIX)]

    def config(self, cluster: str) -> Config:
        """The pools file in force, with the pauses on top: what decisions are made by. Raises as `written` does."""
        return applied(self.written(cluster), self.pauses(cluster))

    def pauses(self, cluster: str) -> dict[str, Json]:
        """The pauses in force: {pool, or WHOLE: {by, reason, at, until}}."""
        etag, known = self._pauses.get(cluster, ("", {}))
        try:
            blob = self.store.get_if_changed(plan_container(cluster), PAUSES, etag)
        except NotFound:
            self._pauses.pop(cluster, None)
            return {}
        if blob is not None:
            known = orjson.loads(blob.data)
            self._pauses[cluster] = (blob.etag, known)
        return active(known, self.services.clock())

    def written(self, cluster: str) -> Config:
        """The pools file in force, whoever has paused what. Raises Rejected when there is none (any more), or none was
        ever valid; never NotFound, which says of whatever an activity is about that it is gone."""
        etag, known = self._configs.get(cluster, ("", None))
        try:
            blob = self.store.get_if_changed(CONFIG_CONTAINER, f"{cluster}{CONFIG_SUFFIX}", etag)
        except NotFound as error:
            raise Rejected(f"cluster {cluster} has no pools file: {error.message}") from error
        if blob is None and known is not None:
            return known
        if blob is None:
            raise Rejected(f"cluster {cluster}: its pools file was removed while it was read")
        try:
            config = self._accepted(cluster, blob.data)
        except ConfigError as error:
            self._refused[cluster] = problems = tuple(str(problem) for problem in error.problems)
            told = "; ".join(problems)
            LOG.error("pools file of cluster %s is refused, the last good one stays in force: %s", cluster, told)
            config = known or self._last_good(cluster, told)
        else:
            self._refused.pop(cluster, None)
            self.store.put(plan_container(cluster), LAST_GOOD, blob.data)
        self._configs[cluster] = (blob.etag, config)
        return config

    def config_problems(self, cluster: str) -> tuple[str, ...]:
        """Everything that is wrong with the pools file as last read, by path and value, and with the templates of VMs
        that it names; nothing once all is good."""
        _, config = self._configs.get(cluster, ("", None))
        pools = config.pools if config is not None else ()
        named = (pool for pool in pools if pool.kind is PoolKind.VM and pool.template)
        return (*self._refused.get(cluster, ()), *(problem for pool in named for problem in self._template_told(pool)))

    def template(self, pool: Pool) -> Json:
        """The ARM body that a pool's VMs are made from. Raises Rejected when there is none, or none that is of use."""
        name = pool.template
        try:
            body: Json = orjson.loads(self.store.get(CONFIG_CONTAINER, name).data)
        except NotFound as error:
            told = f"pool {pool.name}: template {name!r} is not in the container {CONFIG_CONTAINER}"
            raise Rejected(told) from error
        except orjson.JSONDecodeError as error:
            raise Rejected(f"pool {pool.name}: template {name!r} is not JSON: {error}") from error
        problems = list(template_problems(body, pool))
        if problems:
            raise Rejected("; ".join(problems))
        return body

    def _template_told(self, pool: Pool) -> tuple[str, ...]:
        try:
            self.template(pool)
        except Rejected as error:
            return (error.message,)
        return ()

    def _accepted(self, cluster: str, text: bytes) -> Config:
        config = parse_config(text, to_act=True)
        if config.cluster != cluster:
            stored = f"{CONFIG_CONTAINER}/{cluster}{CONFIG_SUFFIX}"
            raise ConfigError([Problem("cluster", config.cluster, f"must be {cluster}, since the file is {stored}")])
        return config

    def _last_good(self, cluster: str, told: str) -> Config:
        try:
            return self._accepted(cluster, self.store.get(plan_container(cluster), LAST_GOOD).data)
        except (NotFound, ConfigError) as none:
            raise Rejected(f"pools file of cluster {cluster} is invalid, and no good one is known: {told}") from none

    def pool(self, cluster: str, name: str) -> Pool:
        """A pool of the file in force. Raises Rejected when it was taken out."""
        pool = self.config(cluster).pool(name)
        if pool is None:
            raise Rejected(f"pool {name} is not in the pools file of cluster {cluster} any more")
        return pool

    def pool_to_finish(self, cluster: str, name: str) -> Pool:
        """The same in the mode of its file, for steps that bring to a safe state what was begun before a pause."""
        pool = self.written(cluster).pool(name)
        if pool is None:
            raise Rejected(f"pool {name} is not in the pools file of cluster {cluster} any more")
        return pool

    def pool_as_known(self, cluster: str, name: str) -> Pool:
        """The same as last read: enough to look at what is under way, never to decide on a write."""
        _, config = self._configs.get(cluster, ("", None))
        known = config.pool(name) if config is not None else None
        return known if known is not None else self.pool(cluster, name)

    def compute_of(self, pool: Pool) -> Compute:
        """Azure compute for a pool. Raises Rejected when the file does not say where the pool lives."""
        if pool.azure is None:
            raise Rejected(f"pool {pool.name}: azure (subscription, resource_group, location) is needed to act")
        compute = Noting(self.services.compute(pool.azure), lambda message: self._note_lack(pool.cluster, message))
        return cast("Compute", compute)

    def lacking(self, cluster: str) -> list[Json]:
        """The rights that were missed within the last hour: {what, at}."""
        return told(self.document_or(cluster, LACKING, {}), self.services.clock())

    def _note_lack(self, cluster: str, message: str) -> None:
        """Whoever was refused says so as well; this may fail, and lose a note of another process at the same moment."""
        try:
            document = noted(self.document_or(cluster, LACKING, {}), message, self.services.clock())
            if document is not None:
                LOG.warning("a right is missing in cluster %s: %s", cluster, message)
                self.put_document(cluster, LACKING, document)
        except OutsideError as error:
            LOG.warning("a missing right of cluster %s could not be noted: %s; %s", cluster, message, error.message)

    def snapshot(self, cluster: str, name: str) -> Snapshot:
        """A stored snapshot. Raises NotFound, and Rejected for one that cannot be read."""
        known = self._snapshots.get((cluster, name))
        if known is not None:
            return known
        data = self.store.get(snapshot_container(cluster), name).data
        try:
            return decode(data)
        except ValueError as error:
            raise Rejected(f"snapshot {name} of cluster {cluster} cannot be read: {error}") from error

    def put_snapshot(self, name: str, snapshot: Snapshot, written: bytes = b"") -> None:
        """Store a snapshot; the same name always holds the same content, so twice is once. `written`: its encoding,
        where it came as that."""
        self.store.put(snapshot_container(snapshot.cluster), name, written or encode(snapshot))
        self._snapshots[snapshot.cluster, name] = snapshot
        for key in list(self._snapshots)[:-SNAPSHOTS_KEPT]:
            self._snapshots.pop(key, None)

    def put_document(self, cluster: str, name: str, document: Json) -> None:
        """Store a plan or a verdict."""
        self.store.put(plan_container(cluster), name, orjson.dumps(document))

    def document(self, cluster: str, name: str) -> Json:
        """A stored plan or verdict. Raises NotFound."""
        found: Json = orjson.loads(self.store.get(plan_container(cluster), name).data)
        return found

    def document_or(self, cluster: str, name: str, default: Json) -> Json:
        """The same, or `default` when there is none yet."""
        try:
            return self.document(cluster, name)
        except NotFound:
            return default


def may_grow(pool: Pool) -> bool:
    """A pool's mode is the stricter of its own and its file's already."""
    return pool.mode in (Mode.ACT, Mode.GROW_ONLY)


def may_retire(pool: Pool) -> bool:
    """Nodes go only where Sluice may act in full."""
    return pool.mode is Mode.ACT


def budget_key(pool: Pool) -> str:
    """The request budget that a pool's ARM calls draw from."""
    return f"{pool.azure.subscription}-{pool.azure.location}" if pool.azure else "nowhere"
