"""ReplicaSets, Deployments, StatefulSets, Jobs and DaemonSets: they make pods, and make new ones for those that go.

Sources: pkg/controller/{replicaset,deployment,statefulset,job,daemon} of Kubernetes 1.36, reduced: no adoption, no
surge arithmetic, no retries with back-off.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import orjson

from local.kube.admission import NOT_READY, UNREACHABLE
from local.kube.controllers.needs import UNSCHEDULABLE_TAINT, any_term, tolerates
from local.kube.controllers.work import WorkQueue, copy, owner_reference, pod_from
from local.kube.kinds import (
    CLAIM,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NODE,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    Json,
    Key,
    Kind,
)
from local.kube.objects import controller_of, is_finished, is_ready, is_true, with_condition
from local.kube.registry import DeleteOptions, Registry
from local.kube.store import DELETED, Change, Stored

_SYNCED = frozenset({REPLICA_SET, DEPLOYMENT, STATEFUL_SET, JOB, DAEMON_SET})
_KINDS = {kind.kind: kind for kind in _SYNCED}
_DAEMON_TOLERATIONS: list[Json] = [
    {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"},
    {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"},
    *(
        {"key": key, "operator": "Exists", "effect": "NoSchedule"}
        for key in (
            "node.kubernetes.io/disk-pressure",
            "node.kubernetes.io/memory-pressure",
            "node.kubernetes.io/pid-pressure",
            UNSCHEDULABLE_TAINT,
        )
    ),
]


class Workloads:
    """All five controllers on one queue."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._store = registry, registry.store
        self._queue: WorkQueue[tuple[Kind, Key]] = WorkQueue(registry.timeline, self._sync)
        self._syncs: dict[Kind, Callable[[Stored], None]] = {
            REPLICA_SET: self._replica_set,
            DEPLOYMENT: self._deployment,
            STATEFUL_SET: self._stateful_set,
            JOB: self._job,
            DAEMON_SET: self._daemon_set,
        }
        self._ended: dict[str, dict[str, str]] = {}  # by Job uid: the phase that each of its pods ended in
        self._store.subscribe(self._note)

    def _note(self, change: Change) -> None:
        new = change.new
        if new.kind in _SYNCED and change.type != DELETED:
            self._queue.add((new.kind, new.key))
        if new.kind in {POD, REPLICA_SET}:
            owner = controller_of(new)
            if owner is not None and (kind := _KINDS.get(owner["kind"])):
                self._queue.add((kind, (new.namespace, owner["name"])))
        elif new.kind is NODE:
            for daemon in self._store.all(DAEMON_SET):
                self._queue.add((DAEMON_SET, daemon.key))

    def _sync(self, what: tuple[Kind, Key]) -> None:
        found = self._store.get(*what)
        if found is not None and not found.terminating:
            self._syncs[found.kind](found)

    def _pods(self, owner: Stored) -> list[Stored]:
        return [one for one in self._store.owned_by(owner.uid) if one.kind is POD]

    def _status(self, owner: Stored, numbers: Json, *, condition: Json | None = None) -> None:
        current = self._store.get(owner.kind, owner.key)
        if current is None:
            return
        status = {**current.status, **numbers, "observedGeneration": current.metadata.get("generation", 1)}
        if condition is not None:
            status = with_condition(status, condition, self._store.now_text())
        self._registry.set_status(current, status)

    def _create_pod(self, owner: Stored, template: Json, *, name: str = "") -> None:
        self._registry.create(POD, owner.namespace, pod_from(owner, template, name=name))

    def _replica_set(self, owner: Stored) -> None:
        active = [one for one in self._pods(owner) if not one.terminating and not is_finished(one)]
        wanted = int(owner.spec["replicas"])
        for _ in range(wanted - len(active)):
            self._create_pod(owner, owner.spec["template"])
        for surplus in sorted(active, key=_dispensable)[: max(len(active) - wanted, 0)]:
            self._registry.delete(surplus)
        pods = [one for one in self._pods(owner) if not one.terminating and not is_finished(one)]
        ready = sum(1 for one in pods if is_ready(one))
        numbers = {"replicas": len(pods), "fullyLabeledReplicas": len(pods)}
        self._status(owner, numbers | {"readyReplicas": ready, "availableReplicas": ready})

    def _deployment(self, owner: Stored) -> None:
        template, wanted = owner.spec["template"], int(owner.spec["replicas"])
        digest = hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).hexdigest()[:10]
        sets = [one for one in self._store.owned_by(owner.uid) if one.kind is REPLICA_SET]
        name = f"{owner.name}-{digest}"
        current = next((one for one in sets if one.name == name), None)
        if current is None:
            current = self._registry.create(REPLICA_SET, owner.namespace, _replica_set_of(owner, name, digest, wanted))
        self._scale(current, wanted)
        ready = int(current.status.get("readyReplicas", 0))
        room = max(wanted - ready, 0)
        for old in sets:
            if old.name != name:
                self._scale(old, min(int(old.spec["replicas"]), room))
                room -= min(int(old.spec["replicas"]), room)
        total = sum(int(one.status.get("replicas", 0)) for one in {one.name: one for one in (*sets, current)}.values())
        numbers = {"replicas": total, "updatedReplicas": int(current.status.get("replicas", 0))}
        available = sum(int(one.status.get("readyReplicas", 0)) for one in {*sets, current})
        numbers |= {"readyReplicas": available, "availableReplicas": available}
        numbers["unavailableReplicas"] = max(wanted - available, 0)
        met = available >= wanted
        reason = "MinimumReplicasAvailable" if met else "MinimumReplicasUnavailable"
        condition = {"type": "Available", "status": str(met), "reason": reason, "message": ""}
        self._status(owner, numbers, condition=condition)

    def _scale(self, replica_set: Stored, wanted: int) -> None:
        current = self._store.get(REPLICA_SET, replica_set.key)
        if current is not None and current.spec["replicas"] != wanted:
            spec = {**current.spec, "replicas": wanted}
            self._registry.update(current, {**current.body, "spec": spec})

    def _stateful_set(self, owner: Stored) -> None:
        pods = {one.name: one for one in self._pods(owner)}
        wanted, parallel = int(owner.spec["replicas"]), owner.spec.get("podManagementPolicy") == "Parallel"
        for number in range(wanted):
            name = f"{owner.name}-{number}"
            pod = pods.get(name)
            if pod is not None and is_finished(pod) and not pod.terminating:
                self._registry.delete(pod)
            elif pod is None:
                self._create_stateful(owner, name)
            if not parallel and (pod is None or not is_ready(pod)):
                break
        keep = {f"{owner.name}-{number}" for number in range(wanted)}
        for pod in pods.values():
            if pod.name not in keep and not pod.terminating:
                self._registry.delete(pod)
        ready = sum(1 for one in pods.values() if is_ready(one))
        self._status(owner, {"replicas": len(pods), "readyReplicas": ready, "availableReplicas": ready})

    def _create_stateful(self, owner: Stored, name: str) -> None:
        template = copy(owner.spec["template"])
        metadata = template.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), "statefulset.kubernetes.io/pod-name": name}
        for claim in owner.spec.get("volumeClaimTemplates") or ():
            claim_name = f"{claim['metadata']['name']}-{name}"
            if self._store.get(CLAIM, (owner.namespace, claim_name)) is None:
                body = {"metadata": {"name": claim_name}, "spec": copy(claim["spec"])}
                self._registry.create(CLAIM, owner.namespace, body)
            volume = {"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name}}
            template["spec"].setdefault("volumes", []).append(volume)
        self._create_pod(owner, template, name=name)

    def _job(self, owner: Stored) -> None:
        if is_true(owner, "Complete") or is_true(owner, "Failed"):
            return
        pods, spec = self._pods(owner), owner.spec
        ended = self._ended_pods(owner, pods)
        succeeded, failed = ended.count("Succeeded"), ended.count("Failed")
        active = [one for one in pods if not is_finished(one) and not one.terminating]
        done, lost = succeeded >= int(spec["completions"]), failed > int(spec["backoffLimit"])
        wanted = 0 if done or lost else min(int(spec["parallelism"]), int(spec["completions"]) - succeeded)
        for _ in range(wanted - len(active)):
            self._create_pod(owner, _labelled_for(owner))
        for surplus in active[wanted:]:
            self._registry.delete(surplus)
        numbers: Json = {"active": wanted, "succeeded": succeeded, "failed": failed}
        numbers["startTime"] = owner.status.get("startTime") or self._store.now_text()
        condition = None
        if done or lost:
            condition = {"type": "Complete" if done else "Failed", "status": "True", "lastProbeTime": None}
            if done:
                numbers["completionTime"] = self._store.now_text()
            self._remove_later(owner)
        self._status(owner, numbers, condition=condition)

    def _ended_pods(self, owner: Stored, pods: list[Stored]) -> list[str]:
        """How each pod ended, also of pods that are gone: the real controller keeps them until they are counted."""
        ended = self._ended.setdefault(owner.uid, {})
        ended.update({one.uid: str(one.status["phase"]) for one in pods if is_finished(one)})
        return list(ended.values())

    def _remove_later(self, owner: Stored) -> None:
        seconds = owner.spec.get("ttlSecondsAfterFinished")
        if seconds is None:
            return
        uid, key = owner.uid, owner.key

        def remove() -> None:
            current = self._store.get(JOB, key)
            if current is not None and current.uid == uid:
                self._registry.delete(current, DeleteOptions())

        self._registry.timeline.call_later(float(seconds), remove)

    def _daemon_set(self, owner: Stored) -> None:
        template = copy(owner.spec["template"])
        template["spec"]["tolerations"] = [*(template["spec"].get("tolerations") or []), *_DAEMON_TOLERATIONS]
        pods: dict[str, list[Stored]] = {}
        for pod in self._pods(owner):
            pods.setdefault(_target(pod), []).append(pod)
        wanted = [node.name for node in self._store.all(NODE) if _may_run(template["spec"], node)]
        for name in wanted:
            if not any(not one.terminating and not is_finished(one) for one in pods.get(name, ())):
                self._create_pod(owner, _pinned(template, name))
        for name, there in pods.items():
            for pod in there:
                if (name not in wanted or is_finished(pod)) and not pod.terminating and self._store.node(name):
                    self._registry.delete(pod)
        running = [one for name in wanted for one in pods.get(name, ()) if not one.terminating]
        ready = sum(1 for one in running if is_ready(one))
        numbers = {"desiredNumberScheduled": len(wanted), "currentNumberScheduled": len(running), "numberReady": ready}
        self._status(owner, numbers | {"numberAvailable": ready, "numberMisscheduled": 0})


def _dispensable(pod: Stored) -> tuple[bool, bool, bool, str]:
    """Order of removal: unbound, not started, not ready, youngest (names stand in for age within a second)."""
    return bool(pod.spec.get("nodeName")), pod.status.get("phase") == "Running", is_ready(pod), pod.name


def _replica_set_of(owner: Stored, name: str, digest: str, replicas: int) -> Json:
    spec = copy({"selector": owner.spec["selector"], "template": owner.spec["template"]})
    label = {"pod-template-hash": digest}
    spec["selector"]["matchLabels"] = {**(spec["selector"].get("matchLabels") or {}), **label}
    metadata = spec["template"].setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **label}
    own = {"name": name, "labels": dict(metadata["labels"]), "ownerReferences": [owner_reference(owner)]}
    return {"metadata": own, "spec": {"replicas": replicas, **spec}}


def _labelled_for(job: Stored) -> Json:
    template = copy(job.spec["template"])
    metadata = template.setdefault("metadata", {})
    own = {"job-name": job.name, "controller-uid": job.uid}
    own |= {f"batch.kubernetes.io/{name}": value for name, value in own.items()}
    metadata["labels"] = {**(metadata.get("labels") or {}), **own}
    return template


def _may_run(spec: Json, node: Stored) -> bool:
    labels = node.labels
    if any(labels.get(name) != value for name, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None and not any_term(required.get("nodeSelectorTerms") or [], node.name, labels):
        return False
    taints = [one for one in node.spec.get("taints") or () if one["effect"] in {"NoSchedule", "NoExecute"}]
    passing = (
        *_DAEMON_TOLERATIONS,
        {"key": NOT_READY, "operator": "Exists"},
        {"key": UNREACHABLE, "operator": "Exists"},
    )
    return all(tolerates([*(spec.get("tolerations") or ()), *passing], taint) for taint in taints)


def _pinned(template: Json, node: str) -> Json:
    """The template, bound to one node by name; other required terms were looked at already."""
    pod = copy(template)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    return pod


def _target(pod: Stored) -> str:
    """The node that a DaemonSet's pod is for."""
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    for term in terms:
        for one in term.get("matchFields") or ():
            return str(one["values"][0])
    return str(pod.spec.get("nodeName", ""))
