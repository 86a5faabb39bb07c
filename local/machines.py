"""From Azure's machines to the cluster's nodes: what the VM's boot script, its kubelet and its node agent would do.

Works through a `ClusterApi`, so it brings nodes into the Kubernetes stand-in and into a real API server alike; there,
kwok goes by the same annotation as the stand-in's kubelets and plays the node's part. Labels are those of a kubelet
with Azure's cloud provider.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from typing import Protocol

from local.kube.controllers.kubelet import KUBELET_ANNOTATION
from local.kube.kinds import NODE
from local.kube.rest_transport import make_api
from local.kube.stand_in import KubernetesStandIn
from local.kube.store import MODIFIED, Change
from local.node_trouble import FINALIZER, SURPRISE_TAINT, Fate, NodeMisfortune, NodeTrouble
from local.randomness import stream
from local.timeline import Due, Timeline
from shared.adapters.errors import NotFound, OutsideError, RetryLater, StaleWrite
from shared.adapters.protocols import ClusterApi, Json
from shared.model import Config, Pool, PoolKind, Priority, Resources
from shared.names import CLUSTER_TAG, EVICTING_AT_ANNOTATION, POOL_LABEL, STARTING_TAINT

NODES = "/api/v1/nodes"
RESTART_SECONDS = 60.0
_SPOT = "kubernetes.azure.com/scalesetpriority"
_RETRY_SECONDS = 1.0
_ATTEMPTS = 30
_log = logging.getLogger(__name__)


class Machine(Protocol):
    """What the bridge wants to know of a VM: `pool` is the name of its scale set, agent pool or VM resource, `name` the
    computer name."""

    @property
    def provider_id(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def pool(self) -> str: ...  # noqa: D102
    @property
    def sku(self) -> str: ...  # noqa: D102
    @property
    def zone(self) -> str: ...  # noqa: D102
    @property
    def location(self) -> str: ...  # noqa: D102
    @property
    def priority(self) -> str: ...  # noqa: D102
    @property
    def tags(self) -> Mapping[str, str]: ...  # noqa: D102


class Machines(Protocol):
    """Whoever knows the machines: tells of those that run already at once, of the others as it happens."""

    def subscribe(
        self,
        *,
        on_running: Callable[[Machine], None] | None = None,
        on_deleting: Callable[[Machine], None] | None = None,
        on_gone: Callable[[Machine], None] | None = None,
        on_preempt_notice: Callable[[Machine, datetime], None] | None = None,
    ) -> None:
        """Register the listeners."""
        ...


@dataclass(frozen=True, slots=True)
class BootTimes:
    """Seconds; spans are drawn from evenly.

    `boot`: the VM runs until its kubelet registers. `gpu`: registered until the device plugin offers the GPUs; None =
    with the registration. `silence`: a machine stops until its Node counts as lost (as node-monitor-grace-period).
    `removal`: a machine is gone until a cloud controller deletes its Node, where one runs. `startup_taint`: kubelets
    register with the taint that Sluice lifts (--register-with-taints in the scale set's template).
    `kubelets`: somebody plays them; False: nodes are Ready from the start, and pods are bound to them but never run.
    `notices`: somebody in the cluster writes eviction notices on the nodes, as a node-problem-detector does.
    """

    boot: tuple[float, float] = (30.0, 75.0)
    gpu: tuple[float, float] | None = None
    silence: float = 50.0
    removal: tuple[float, float] = (1.0, 10.0)
    startup_taint: bool = False
    kubelets: bool = True
    notices: bool = True


class MachinesBridge:
    """Follows `machines` from the moment it is made.

    `cloud_controller`: a cloud provider's node controller deletes Nodes whose machine is gone (as it always does in
    AKS); without one they stay, NotReady, until somebody else does. It calls the API server from the timeline's thread:
    give it a stand-in of the same process, or a server that does not wait for this timeline's lock; for the latter,
    `executor` makes the calls on its threads, side by side as kubelets do.
    """

    def __init__(  # noqa: PLR0913 - all but the first four by keyword, and most left alone
        self,
        timeline: Timeline,
        machines: Machines,
        cluster: KubernetesStandIn | ClusterApi,
        config: Config,
        *,
        seed: int = 0,
        boot: BootTimes | None = None,
        trouble: NodeTrouble | None = None,
        cloud_controller: bool = False,
        executor: Executor | None = None,
    ) -> None:
        self._timeline, self._pools, self._cluster = timeline, config.pools, config.cluster
        self._api = make_api(cluster, cluster.token) if isinstance(cluster, KubernetesStandIn) else cluster
        self._times, self._cloud_controller = boot or BootTimes(), cloud_controller
        self._draws = stream(seed, "machines")
        self.misfortune = NodeMisfortune(timeline, seed, trouble)
        self._executor = executor
        self._booting: dict[str, Due] = {}
        self._running: dict[str, str] = {}  # by node name: the provider id of the machine that has it now
        self._finalized: dict[str, float] = {}  # by node name: for how long its finalizer stays, in seconds
        if isinstance(cluster, KubernetesStandIn) and self.misfortune.rates.finalized > 0:
            cluster.store.subscribe(self._note)
        machines.subscribe(
            on_running=self.on_running,
            on_deleting=self.on_deleting,
            on_gone=self.on_gone,
            on_preempt_notice=self.on_preempt_notice,
        )

    def on_running(self, machine: Machine) -> None:
        """The VM runs: its node registers after a boot time."""
        pool = self._pool(machine)
        if pool is None:
            return
        name = node_name(machine)
        self._running[name] = machine.provider_id
        fate = self.misfortune.fate(name, pool.name, gpus=_has_gpus(pool))
        if fate.never:
            return
        with_gpus = self._times.gpu is None and fate.gpus_in is None
        body = node_of(machine, pool, with_gpus=with_gpus, startup_taint=self._times.startup_taint)
        body = body if self._times.kubelets else _without_kubelet(body)
        body = _troubled(body, fate)
        seconds = self._draws.uniform(*self._times.boot) + fate.late
        self._booting[name] = self._timeline.call_later(seconds, lambda: self._register(machine, pool, body, fate))

    def on_deleting(self, machine: Machine) -> None:
        """The VM is being stopped: its kubelet falls silent, and what it ran is lost."""
        name = node_name(machine)
        if self._running.get(name) != machine.provider_id:
            return
        del self._running[name]
        if name in self._booting:
            self._booting.pop(name).cancel()
        self._try(lambda: self._silence(name, machine.provider_id))
        self._timeline.call_later(self._times.silence, lambda: self._try(lambda: self._lose(name, machine.provider_id)))

    def on_gone(self, machine: Machine) -> None:
        """The VM is gone for good."""
        self.on_deleting(machine)
        pool = self._pool(machine)
        if self._cloud_controller or (pool is not None and pool.kind is PoolKind.AKS):
            seconds = self._draws.uniform(*self._times.removal)
            self._timeline.call_later(seconds, lambda: self._try(lambda: self._remove(machine)))

    def on_preempt_notice(self, machine: Machine, not_before: datetime) -> None:
        """Azure takes the VM away at `not_before`: the node says so, as a node-problem-detector and our agent would."""
        if self._times.notices and self._running.get(node_name(machine)) == machine.provider_id:
            self._try(lambda: self._announce(machine, not_before))

    def _pool(self, machine: Machine) -> Pool | None:
        if machine.tags.get(CLUSTER_TAG, self._cluster) != self._cluster:
            return None
        named = machine.tags.get("sluice-pool", "")
        for pool in self._pools:
            if pool.name == named or pool.resource.lower() == machine.pool.lower():
                return pool
        return None

    def _register(self, machine: Machine, pool: Pool, body: Json, fate: Fate) -> None:
        name = body["metadata"]["name"]
        if self._running.get(name) != machine.provider_id:
            return
        self._try(lambda: self._create(body))
        if fate.gpus_in is not None:
            if isfinite(fate.gpus_in):
                self._timeline.call_later(fate.gpus_in, lambda: self._restart(machine, pool))
        elif self._times.gpu is not None:
            seconds = self._draws.uniform(*self._times.gpu)
            self._timeline.call_later(seconds, lambda: self._try(lambda: self._offer_gpus(machine, pool)))
        for after, silent in fate.flaps:
            self._timeline.call_later(after, partial(self._flap, machine, silent))
        if fate.recreated_in is not None:
            self._timeline.call_later(fate.recreated_in, lambda: self._recreate(machine, pool, body, fate))
        if fate.finalized_for:
            self._finalized[name] = fate.finalized_for

    # Trouble

    def _restart(self, machine: Machine, pool: Pool) -> None:
        """The node restarts, and its device plugin finds the GPUs afterwards."""
        self._flap(machine, RESTART_SECONDS)
        later = RESTART_SECONDS + 1.0
        self._timeline.call_later(later, lambda: self._try(lambda: self._offer_gpus(machine, pool)))

    def _flap(self, machine: Machine, seconds: float) -> None:
        name = node_name(machine)
        if self._running.get(name) != machine.provider_id:
            return
        self._try(lambda: self._silence(name, machine.provider_id))
        self._timeline.call_later(seconds, lambda: self._try(lambda: self._speak(machine)))

    def _speak(self, machine: Machine) -> None:
        name = node_name(machine)
        if self._running.get(name) == machine.provider_id and self._its_node(name, machine.provider_id) is not None:
            self._api.patch(f"{NODES}/{name}", {"metadata": {"annotations": {KUBELET_ANNOTATION: "fake"}}})

    def _recreate(self, machine: Machine, pool: Pool, body: Json, fate: Fate) -> None:
        """Somebody deletes the Node object, and the kubelet registers anew, with nothing of what others wrote there."""
        name = node_name(machine)
        if self._running.get(name) == machine.provider_id:
            self._try(lambda: self._api.delete(f"{NODES}/{name}"))
            self._register(machine, pool, body, replace(fate, recreated_in=None, flaps=()))

    def _note(self, change: Change) -> None:
        """A node that somebody deletes waits for whoever holds it."""
        node = change.new
        if change.type != MODIFIED or node.kind is not NODE or node.name not in self._finalized:
            return
        if node.terminating and FINALIZER in (node.metadata.get("finalizers") or ()):
            lift = partial(self._try, lambda: self._lift(node.name))
            self.misfortune.chances.hold(self._finalized.pop(node.name), lift)

    def _lift(self, name: str) -> None:
        self._api.patch(f"{NODES}/{name}", {"metadata": {"finalizers": None}})

    def _create(self, body: Json) -> None:
        try:
            self._api.create(NODES, body)
        except StaleWrite:  # the Node of a former life: the kubelet of the same name takes it over
            path = f"{NODES}/{body['metadata']['name']}"
            if self._api.get(path)["spec"].get("providerID") != body["spec"]["providerID"]:
                self._api.delete(path)
                self._api.create(NODES, body)
            else:
                self._api.patch(path, {"metadata": {"annotations": body["metadata"]["annotations"]}})

    def _offer_gpus(self, machine: Machine, pool: Pool) -> None:
        if self._running.get(node_name(machine)) == machine.provider_id:
            status = {"capacity": quantities(pool.shape), "allocatable": quantities(pool.allocatable)}
            self._api.patch(f"{NODES}/{node_name(machine)}/status", {"status": status})

    def _silence(self, name: str, provider_id: str) -> None:
        if self._its_node(name, provider_id) is not None:
            self._api.patch(f"{NODES}/{name}", {"metadata": {"annotations": {KUBELET_ANNOTATION: None}}})

    def _lose(self, name: str, provider_id: str) -> None:
        node = self._its_node(name, provider_id)
        if node is None or self._running.get(name):
            return
        lost = {"status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
        conditions = [
            {**one, **lost} if one["type"] == "Ready" else one for one in node["status"].get("conditions") or ()
        ]
        self._api.patch(f"{NODES}/{name}/status", _conditions(node, conditions))

    def _remove(self, machine: Machine) -> None:
        node = self._its_node(node_name(machine), machine.provider_id)
        if node is not None:
            self._api.delete(f"{NODES}/{node_name(machine)}", uid=node["metadata"]["uid"])

    def _announce(self, machine: Machine, not_before: datetime) -> None:
        name = node_name(machine)
        node = self._its_node(name, machine.provider_id)
        if node is None:
            return
        moment = not_before.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        now = self._timeline.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "VMEventScheduled",
            "status": "True",
            "reason": "PreemptScheduled",
            "message": f"Preempt Scheduled: NotBefore {moment}",
            "lastTransitionTime": now,
            "lastHeartbeatTime": now,
        }
        others = [one for one in node["status"].get("conditions") or () if one["type"] != condition["type"]]
        self._api.patch(f"{NODES}/{name}/status", _conditions(node, [*others, condition]))
        self._api.patch(f"{NODES}/{name}", {"metadata": {"annotations": {EVICTING_AT_ANNOTATION: moment}}})

    def _its_node(self, name: str, provider_id: str) -> Json | None:
        try:
            node = self._api.get(f"{NODES}/{name}")
        except NotFound:
            return None
        return node if node["spec"].get("providerID") == provider_id else None

    def _try(self, work: Callable[[], None], attempt: int = 1) -> None:
        if self._executor is None:
            self._attempt(work, attempt)
        else:
            self._executor.submit(self._attempt, work, attempt)

    def _attempt(self, work: Callable[[], None], attempt: int) -> None:
        """Do it now, or a little later when the API server is in trouble, as a kubelet would."""
        try:
            work()
        except NotFound:
            _log.debug("a node was deleted while its machine changed")
        except (RetryLater, StaleWrite) as error:
            if attempt >= _ATTEMPTS:
                _log.error("gave up after %d attempts: %s", attempt, error)
                return
            self._timeline.call_later(_RETRY_SECONDS, lambda: self._try(work, attempt + 1))
        except OutsideError as error:
            _log.error("the API server refuses a node: %s", error)


def _conditions(node: Json, conditions: list[Json]) -> Json:
    """A merge patch replaces the list whole, so it must be the list that was read."""
    return {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "status": {"conditions": conditions}}


def node_name(machine: Machine) -> str:
    """The kubelet's name for its node."""
    return machine.name.lower()


def node_of(machine: Machine, pool: Pool, *, with_gpus: bool = True, startup_taint: bool = False) -> Json:
    """The Node object that the machine's kubelet registers."""
    name = node_name(machine)
    shape, allocatable = dict(pool.shape), pool.allocatable
    if not with_gpus:
        shape, allocatable = _without_gpus(shape), _without_gpus(allocatable)
    taints = [{"key": one.key, "value": one.value, "effect": one.effect} for one in pool.taints]
    if pool.kind is PoolKind.AKS and pool.priority is Priority.SPOT and all(one.key != _SPOT for one in pool.taints):
        taints.append({"key": _SPOT, "value": "spot", "effect": "NoSchedule"})
    taints += [{"key": STARTING_TAINT, "effect": "NoSchedule"}] if startup_taint else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels_of(machine, pool),
            "annotations": {KUBELET_ANNOTATION: "fake"},
        },
        "spec": {"providerID": machine.provider_id} | ({"taints": taints} if taints else {}),
        "status": {"capacity": quantities(shape), "allocatable": quantities(allocatable)},
    }


def _has_gpus(pool: Pool) -> bool:
    return any("/" in name for name in pool.shape)


def _troubled(node: Json, fate: Fate) -> Json:
    """The Node as its fate makes it register."""
    node = {part: dict(value) if isinstance(value, dict) else value for part, value in node.items()}
    if fate.tainted:
        taint = {"key": SURPRISE_TAINT, "effect": "NoSchedule"}
        node["spec"]["taints"] = [*node["spec"].get("taints", ()), taint]
    if fate.finalized_for:
        node["metadata"]["finalizers"] = [FINALIZER]
    if fate.share < 1.0:
        shrunken = {name: _less(text, fate.share) for name, text in node["status"]["allocatable"].items()}
        node["status"]["allocatable"] = shrunken
    return node


def _less(text: str, share: float) -> str:
    """A quantity as `quantities` writes it; counts stay what they are."""
    if text.endswith("m"):
        return f"{int(int(text[:-1]) * share)}m"
    return str(int(int(text) * share)) if len(text) > len("1000000") else text


def _without_kubelet(node: Json) -> Json:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "said once and for all"}
    metadata = {name: value for name, value in node["metadata"].items() if name != "annotations"}
    return {**node, "metadata": metadata, "status": {**node["status"], "conditions": [ready]}}


def labels_of(machine: Machine, pool: Pool) -> dict[str, str]:
    """The kubelet's and Azure's labels, then the pool's own. Without a zone, Azure's provider writes a fault domain."""
    zone = f"{machine.location}-{machine.zone}" if machine.zone else "0"
    labels = {
        "kubernetes.io/hostname": node_name(machine),
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": machine.sku,
        "beta.kubernetes.io/instance-type": machine.sku,
        "topology.kubernetes.io/region": machine.location,
        "topology.kubernetes.io/zone": zone,
    }
    if pool.kind is PoolKind.AKS:
        labels |= _labels_of_aks(pool)
    return {**labels, **pool.labels, POOL_LABEL: pool.name}


def _labels_of_aks(pool: Pool) -> dict[str, str]:
    """By "Use labels in an AKS cluster" and "Add a Spot node pool to an AKS cluster", not by what Sluice expects."""
    labels = {"agentpool": pool.resource, "kubernetes.azure.com/agentpool": pool.resource}
    labels["kubernetes.azure.com/mode"] = "user"
    if pool.priority is Priority.SPOT:
        labels[_SPOT] = "spot"
    return labels


def quantities(amounts: Resources) -> dict[str, str]:
    """As Kubernetes writes them: cpu in thousandths, the rest in whole units; every node takes some pods."""
    written = {name: f"{value}m" if name == "cpu" else str(value) for name, value in amounts.items()}
    return {"pods": "110", **written}


def _without_gpus(amounts: Mapping[str, int]) -> dict[str, int]:
    """Extended resources wait for their device plugins."""
    return {name: value for name, value in amounts.items() if "/" not in name}
