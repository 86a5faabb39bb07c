"""One look at a whole cluster, and everything that is wrong with it: what was lost, and what was left behind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import islice

from functions.dead import dead_nodes, order_of
from functions.durable import Json
from functions.nodes import holder_of, is_cordoned, is_ready, provider_id, ready_since
from functions.opening import place_of_taint
from functions.outcomes import tell
from functions.pools import FAILED, GOING, has_failed, is_busy, unjoined
from functions.wishes import operation_id
from functions.world import World, budget_key, may_grow, may_retire
from shared.adapters.errors import NotFound, Refused
from shared.adapters.pod_groups import pod_groups_of
from shared.adapters.protocols import ClusterApi, Instance, ScaleSet
from shared.model import Config, Mode, Pool, PoolKind, Priority, Snapshot
from shared.planning.returning import is_due
from shared.provider_id import parse, pool_of
from shared.reading.pods import is_pending_candidate, is_terminal, owner_kind
from shared.reading.projection import project, storage_seen
from shared.reading.storage import Kind
from shared.reading.volumes import uses_claims
from shared.state.bulk import unpack
from shared.state.failures import NEVER_JOINED, POOL_UNFIT, failure_memory
from shared.state.instances import key_of
from shared.state.ledger import ARRIVING, failure_entry, moment, planning_ledger, stamp

PENDING_TOO_LONG = timedelta(seconds=60)  # the exporter's debounce and Event Grid's first retry are over by then
SAGA_OVERDUE = timedelta(minutes=10)  # a retirement younger than this is not asked after
RARELY = timedelta(minutes=30)  # two ARM lists: leftovers are looked for in one sweep of six
SWEEP = timedelta(minutes=5)
OPENING_OVERDUE = timedelta(minutes=2)  # a plan opens a node within seconds of its being complete
MOST_REPAIRS = 8  # per kind and sweep
MOST_OPENED = 100  # nodes per sweep
MOST_LOST = 100  # instances per growth and sweep
IDLE = "idle.json"
_MIRROR = "kubernetes.io/config.mirror"


def is_rare_sweep(now: datetime) -> bool:
    """Whether this sweep is the one of the half hour."""
    return (now.minute * 60 + now.second) % RARELY.total_seconds() < SWEEP.total_seconds()


def fresh_snapshot(
    world: World,
    config: Config,
    now: datetime,
    order: tuple[int, int] = (0, 0),
    idle: Mapping[str, datetime] | None = None,
) -> Snapshot:
    """List everything and project it; `order` is the (epoch, sequence) that it stands in for."""
    api = world.api(config.cluster)
    pods, _ = api.list("/api/v1/pods")
    nodes, _ = api.list("/api/v1/nodes")
    return _projected(world, config, now, order, idle, pods, nodes)


def _projected(
    world: World,
    config: Config,
    now: datetime,
    order: tuple[int, int],
    idle: Mapping[str, datetime] | None,
    pods: list[Json],
    nodes: list[Json],
) -> Snapshot:
    api = world.api(config.cluster)
    daemon_sets, _ = api.list("/apis/apps/v1/daemonsets")
    lists, unread = _volumes(api) if any(map(uses_claims, pods)) else ({}, {})
    return project(
        cluster=config.cluster,
        epoch=order[0],
        sequence=order[1],
        now=now,
        config=config,
        pods=pods,
        nodes=nodes,
        daemon_sets=daemon_sets,
        idle_since=idle or {},
        pod_groups=pod_groups_of(api, pods),
        storage=storage_seen(pods, lists, unread),
    )


def _volumes(api: ClusterApi) -> tuple[dict[Kind, list[Json]], dict[Kind, str]]:
    """What tells of volumes, and what may not be listed."""
    lists: dict[Kind, list[Json]] = {}
    unread: dict[Kind, str] = {}
    for kind in Kind:
        try:
            lists[kind], _ = api.list(kind.path)
        except (Refused, NotFound) as error:
            tell("no right to list", resource=kind.value, error=error.message)
            unread[kind] = f"no right to list {kind.value}"
    return lists, unread


class Survey:
    """One look at one cluster, and everything that can be told from it."""

    def __init__(self, world: World, config: Config, order: Json) -> None:
        self.world, self.config, self.view = world, config, unpack(order["view"])
        self.now = moment(order["now"])
        self.why: str = order.get("why", "")
        api = world.api(config.cluster)
        self.pods, _ = api.list("/api/v1/pods")
        self.nodes, _ = api.list("/api/v1/nodes")
        self.pool_of = {node["metadata"]["name"]: pool_of(node, config) for node in self.nodes}
        self.counts = Counter(self.pool_of.values())
        self.machines = frozenset(provider_id(node) for node in self.nodes)
        self.failures: list[Json] = []
        self.starts: list[Json] = []
        self.ghosts: list[Json] = []
        self.idle: dict[str, datetime] = {}
        self.lost: dict[str, list[str]] = {}

    def run(self) -> Json:
        """The verdict: small, and all empty when nothing is wrong. In a paused cluster it sees to what was begun."""
        if self.config.mode is not Mode.PAUSED:
            for pool in self._pools_to_inspect():
                self._inspect(pool)
            self._find_dead()
            why = self._reason_to_plan()
            if why:
                self.starts.append(self._plan_start(why))
        suspects = self._suspects()
        return {
            "failures": self.failures[:MOST_REPAIRS],
            "starts": self.starts[: 2 * MOST_REPAIRS],
            "ghosts": self.ghosts[:MOST_REPAIRS],
            "suspects": suspects[:MOST_REPAIRS],
            "closed": self._closed()[:MOST_OPENED],
            "lost": self.lost,
            "growths": self._lost_growths(),
        }

    def _acting(self) -> list[Pool]:
        return [pool for pool in self.config.pools if may_grow(pool)]

    def _pools_to_inspect(self) -> Iterable[Pool]:
        """Those whose machines and nodes do not add up; a scale set of as many VMs as Ready nodes is in order."""
        unready = {self.pool_of[node["metadata"]["name"]] for node in self.nodes if not is_ready(node)}
        sets = [pool for pool in self._acting() if pool.kind is not PoolKind.VM]
        by_scope: dict[str, list[Pool]] = defaultdict(list)
        for pool in sets:
            by_scope[budget_key(pool)].append(pool)
        sizes: dict[str, ScaleSet] = {}
        for pools in by_scope.values():
            sizes |= self.world.compute_of(pools[0]).scale_sets(pools)
        waited = self._pools_waited_for()
        for pool in sets:
            size = sizes.get(pool.name)
            if size is None:
                continue
            if size.unfit:
                self._remember(POOL_UNFIT, size.unfit, pool)
            elif size.capacity != self.counts[pool.name] or pool.name in unready or pool.name in waited:
                yield pool
        for pool in self._acting():
            if pool.kind is PoolKind.VM and (
                self.counts[pool.name] or self._in_flight(pool.name) or is_rare_sweep(self.now)
            ):
                yield pool

    def _pools_waited_for(self) -> set[str]:
        """Those of growths whose instances are not all nodes yet."""
        here = set()
        for node in self.nodes:
            machine = parse(str(node.get("spec", {}).get("providerID", "")))
            if machine is not None:
                here.add(key_of(self.pool_of[node["metadata"]["name"]], machine.deletion_id))
        growths = self.view["growths"].values()
        named = ((growth["pool"], instance) for growth in growths for instance in growth["claimed"])
        return {pool for pool, instance in named if key_of(pool, instance) not in here}

    def _inspect(self, pool: Pool) -> None:
        instances = self.world.compute_of(pool).instances(pool)
        self._find_lost(pool, instances)
        self._find_unjoined(pool, instances)
        self._find_deallocated(pool, instances)
        self._find_failed(pool, instances)
        self._find_ghosts(pool, instances)
        if pool.kind is not PoolKind.VM and not self._in_flight(pool.name) and not self._shrinks(pool.name):
            scale_set = self.world.compute_of(pool).scale_set(pool)
            if scale_set.capacity > len(instances) and not is_busy(scale_set, instances):
                self.starts.append(self._undo(pool, []))

    def _find_lost(self, pool: Pool, instances: list[Instance]) -> None:
        """Instances that nodes were expected of and that are no more (evicted while they booted): no supply."""
        alive = (each for each in instances if each.provisioning_state != GOING and not each.deallocated)
        there = {each.instance_id.casefold() for each in alive}
        for op, growth in self.view["growths"].items():
            lost = [name for name in growth["claimed"] if growth["pool"] == pool.name and name.casefold() not in there]
            if lost:
                self.lost[op] = lost[:MOST_LOST]
                growth["claimed"] = [name for name in growth["claimed"] if name not in self.lost[op]]
                tell("lost on the way", cluster=self.config.cluster, pool=pool.name, op=op, count=len(lost))

    def _find_unjoined(self, pool: Pool, instances: list[Instance]) -> None:
        """VMs that never became a node: gone, and remembered, so that the next ones are bought elsewhere first."""
        lost = unjoined(instances, self.machines, self.now, self.config.timing.node_join_timeout)
        growths = [growth for growth in self.view["growths"].values() if growth["pool"] == pool.name]
        awaited = {name for growth in growths for name in growth["claimed"]}
        lost = [name for name in lost if name not in awaited]
        if not lost:
            return
        tell("never joined", cluster=self.config.cluster, pool=pool.name, instances=lost[:MOST_REPAIRS])
        self.starts.append(self._undo(pool, lost[:MOST_REPAIRS]))
        self._remember(NEVER_JOINED, "", pool)

    def _remember(self, code: str, message: str, pool: Pool) -> None:
        memory = failure_memory(code, message, pool, self.now)
        if memory is not None:
            self.failures.append(failure_entry(memory))

    def _find_deallocated(self, pool: Pool, instances: list[Instance]) -> None:
        """Spot VMs that Azure took while nobody listened, and that go on counting in their set's capacity."""
        off = [each.instance_id for each in instances if each.deallocated and pool.priority is Priority.SPOT]
        if off:
            tell("deallocated", cluster=self.config.cluster, pool=pool.name, instances=off[:MOST_REPAIRS])
            self.starts.append(self._undo(pool, off[:MOST_LOST]))

    def _find_failed(self, pool: Pool, instances: list[Instance]) -> None:
        """VMs that Azure could not provision, and that no growth sees to: claimed while being made, perhaps."""
        if self._in_flight(pool.name):
            return
        failed = [each for each in instances if has_failed(each) and each.provider_id.casefold() not in self.machines]
        failed = [each for each in failed if not each.deallocated][:MOST_REPAIRS]
        if not failed:
            return
        names = [each.instance_id for each in failed]
        tell("failed", cluster=self.config.cluster, pool=pool.name, instances=names)
        self.starts.append(self._undo(pool, names))
        memories = [failure_memory(each.failure or FAILED, "", pool, self.now, each.zone) for each in failed]
        self.failures += [failure_entry(memory) for memory in memories if memory is not None]
        for op, growth in self.view["growths"].items():
            if growth["pool"] == pool.name and (lost := [name for name in growth["claimed"] if name in names]):
                self.lost.setdefault(op, []).extend(lost)
                growth["claimed"] = [name for name in growth["claimed"] if name not in names]

    def _lost_growths(self) -> list[Json]:
        """Growths that should be through with Azure by now: are their sagas still there?"""
        found = []
        for op, growth in self.view["growths"].items():
            pool = self.config.pool(growth["pool"])
            if pool is None or growth["stage"] == ARRIVING or self.now - moment(growth["asked"]) < SAGA_OVERDUE:
                continue
            order = {"pool": pool.name, "op": op, "add": growth["add"], "kind": pool.kind.value}
            order |= {"budget": budget_key(pool), "asked": growth["asked"], "cluster": self.config.cluster}
            found.append({**order, "join_timeout": self.config.timing.node_join_timeout})
        return found[:MOST_REPAIRS]

    def _find_ghosts(self, pool: Pool, instances: list[Instance]) -> None:
        """Nodes that are not Ready and have no VM any more."""
        if not may_retire(pool):
            return
        alive = {each.provider_id.casefold() for each in instances}
        for node in self.nodes:
            meta = node["metadata"]
            if self.pool_of[meta["name"]] != pool.name or is_ready(node) or meta["name"] in self.view["retirements"]:
                continue
            if provider_id(node) and provider_id(node) not in alive:
                self.ghosts.append({"node": meta["name"], "uid": meta.get("uid", ""), "pool": pool.name})

    def _find_dead(self) -> None:
        """Nodes whose kubelet has been silent for too long, though their VM is there."""
        gone = {ghost["node"] for ghost in self.ghosts}
        number = sum(map(bool, self.pool_of.values()))
        for node in islice(dead_nodes(self.config, self.nodes, self.now), MOST_REPAIRS):
            name = node["metadata"]["name"]
            pool = self.config.pool(self.pool_of[name])
            if pool is None or name in gone or name in self.view["retirements"] or name in self.view["cooling"]:
                continue
            op = operation_id(self.config.cluster, "dead", name, stamp(self.now))
            order = order_of(self.config, pool, node, op, number)
            self.starts.append({"name": "retire_node", "id": f"retire:{op}", "input": order})

    def _undo(self, pool: Pool, failed: list[str]) -> Json:
        op = operation_id(self.config.cluster, "undo", pool.name, stamp(self.now))
        order = {
            "cluster": self.config.cluster,
            "pool": pool.name,
            "op": op,
            "kind": pool.kind.value,
            "budget": budget_key(pool),
            "failed": failed,
        }
        return {"name": "undo_growth", "id": f"undo:{op}", "input": order}

    def _in_flight(self, pool: str) -> bool:
        return any(growth["pool"] == pool and growth["stage"] != ARRIVING for growth in self.view["growths"].values())

    def _shrinks(self, pool: str) -> bool:
        return any(leaving["pool"] == pool for leaving in self.view["retirements"].values())

    def _outstanding(self, pool: str) -> int:
        mine = [growth for growth in self.view["growths"].values() if growth["pool"] == pool]
        return sum(len(growth["claimed"]) if growth["stage"] == ARRIVING else growth["add"] for growth in mine)

    def _reason_to_plan(self) -> str:
        if self.why:
            return self.why
        if self._is_unserved():
            return "news were recorded and nobody planned"
        if any(is_pending_candidate(pod) and self.now - _created(pod) > PENDING_TOO_LONG for pod in self.pods):
            return "pods have been waiting"
        for pool in self.config.pools:
            if lack := self._lack(pool):
                return f"pool {pool.name} {lack}"
        if self._idle_long_enough():
            return "nodes have been idle"
        return self._could_be_cheaper()

    def _could_be_cheaper(self) -> str:
        spare = [pool.name for pool in self.config.pools if self.counts[pool.name] > pool.minimum]
        if is_due(spare, self.config, planning_ledger(self.view), self.now):
            return "on-demand nodes stand in for Spot"
        looks = self.config.scale_down.replace_saving > 0 and is_rare_sweep(self.now)
        return "cheaper nodes may do" if looks else ""

    def _lack(self, pool: Pool) -> str:
        """What the pool is short of, those that are coming counted, or ""."""
        coming = self._outstanding(pool.name)
        if self.counts[pool.name] + coming < pool.minimum:
            return "is below its minimum"
        return "lacks headroom" if pool.headroom and self._free(pool.name) + coming < pool.headroom else ""

    def _free(self, pool: str) -> int:
        """Nodes of the pool that hold no pod which counts: pods that took headroom's room were never announced."""
        cutoff = self.config.priority_cutoff
        counting = (pod["spec"] for pod in self.pods if not _goes_with_node(pod))
        busy = {spec.get("nodeName") for spec in counting if (spec.get("priority") or 0) >= cutoff}
        return sum(of == pool and name not in busy for name, of in self.pool_of.items())

    def _is_unserved(self) -> bool:
        lead = self.view["lead"]
        if lead is not None:
            return moment(lead["deadline"]) <= self.now
        return bool(self.view["generation"] > self.view["served"])

    def _idle_long_enough(self) -> bool:
        """Whether an empty node has been empty for long, by our own memory: its event may have been lost."""
        busy = {pod["spec"].get("nodeName") for pod in self.pods if not _goes_with_node(pod)}
        pools = {pool.name for pool in self.config.pools if self._may_do_with_less(pool)}
        empty = [name for name, pool in self.pool_of.items() if pool in pools and name not in busy]
        before = self.world.document_or(self.config.cluster, IDLE, {})
        since = {name: before.get(name, stamp(self.now)) for name in empty}
        if since != before:
            self.world.put_document(self.config.cluster, IDLE, since)
        self.idle = {name: moment(text) for name, text in since.items()}
        patience = timedelta(seconds=self.config.scale_down.idle_after)
        return any(
            self.now - when >= patience and name not in self.view["retirements"] and name not in self.view["cooling"]
            for name, when in self.idle.items()
        )

    def _may_do_with_less(self, pool: Pool) -> bool:
        """Whether an empty node of the pool may be one too many: what its minimum or its headroom keeps is not."""
        if pool.mode not in (Mode.ACT, Mode.OBSERVE) or self.counts[pool.name] <= pool.minimum:
            return False
        return not pool.headroom or self._free(pool.name) > pool.headroom

    def _plan_start(self, why: str) -> Json:
        op = operation_id(self.config.cluster, "sweep", stamp(self.now))
        name = f"sweeps/{op}.json"
        order = (self.view["epoch"], self.view["sequence"])
        snapshot = _projected(self.world, self.config, self.now, order, self.idle, self.pods, self.nodes)
        self.world.put_snapshot(name, snapshot)
        tell("sweep plans", cluster=self.config.cluster, why=why)
        event = f"sweep:{op}"
        where = {"epoch": order[0], "sequence": order[1], "snapshot": name}
        news = {"cluster": self.config.cluster, "event": event, **where, "force": True}
        return {"name": "admit", "id": event, "input": news}

    def _closed(self) -> list[Json]:
        """Nodes that still have the startup taint when it should long be gone: better placed anyhow than not at all."""
        acting = {pool.name for pool in self.world.written(self.config.cluster).pools if may_grow(pool)}
        found = [node for node in self.nodes if self.pool_of[node["metadata"]["name"]] in acting]
        return [
            {"node": node["metadata"]["name"], "uid": node["metadata"].get("uid", ""), "taint": place}
            for node in found
            if not is_cordoned(node)
            and (place := place_of_taint(node)) is not None
            and (since := ready_since(node)) is not None
            and self.now - since > OPENING_OVERDUE
        ]

    def _suspects(self) -> list[Json]:
        """Cordons of ours that no entry accounts for, and entries that are overdue: are their sagas still there?"""
        known = self.view["retirements"]
        overdue = {
            name: entry["op"] for name, entry in known.items() if self.now - moment(entry["since"]) > SAGA_OVERDUE
        }
        for node in self.nodes:
            name, op = node["metadata"]["name"], holder_of(node)
            if op and known.get(name, {}).get("op") != op:
                overdue[name] = op
        return [{"node": name, "op": op, "pool": self.pool_of.get(name, "")} for name, op in sorted(overdue.items())]


def _goes_with_node(pod: Json) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return _MIRROR in annotations or is_terminal(pod) or owner_kind(pod) in {"DaemonSet", "Node"}


def _created(item: Json) -> datetime:
    return datetime.fromisoformat(item["metadata"]["creationTimestamp"])
