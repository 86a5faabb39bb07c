"""From the stand-ins' ground truth to the record of a run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from local.checker.rules import nodes_without_vm
from local.system.records import GrowthRecord, Leaks, MachineRecord, PodRecord, RunRecord
from local.system.sizes import GPU
from local.system.stand_ins import StandIns
from shared.model import Config, Pool

_GROWTHS = {"scale_set.update", "agent_pool.update", "vm.create"}


def run_record(
    stand_ins: StandIns, violations: tuple[str, ...], extra: Mapping[str, object] | None = None
) -> RunRecord:
    """Everything that a report needs; `violations` are the checker's verdict on the same evidence."""
    with stand_ins.timeline.lock:
        return RunRecord(
            pods=_pods(stand_ins),
            machines=_machines(stand_ins),
            growths=_growths(stand_ins),
            leaks=_leaks(stand_ins),
            spot_evictions=len(stand_ins.arm.truth.evictions),
            violations=violations,
            trace_hash=stand_ins.chronicle.digest,
            ended=_seconds(stand_ins, stand_ins.timeline.now()),
            prices={pool.name: pool.price or 0.0 for pool in stand_ins.config.pools},
            minimums={pool.name: pool.minimum for pool in stand_ins.config.pools},
            extra=dict(extra or {}),
        )


def boot_times(stand_ins: StandIns) -> list[float]:
    """Seconds from the moment Azure had a VM until its node was Ready, of every node there ever was."""
    ready = {node.name: node.ready for node in stand_ins.cluster.truth.nodes.values()}
    booted = ((vm.created_at, ready.get(vm.computer_name.lower())) for vm in stand_ins.arm.truth.vms)
    return [(end - begin).total_seconds() for begin, end in booted if end is not None]


def _seconds(stand_ins: StandIns, moment: datetime) -> float:
    return (moment - stand_ins.begun).total_seconds()


def _maybe(stand_ins: StandIns, moment: datetime | None) -> float | None:
    return None if moment is None else _seconds(stand_ins, moment)


def _pods(stand_ins: StandIns) -> tuple[PodRecord, ...]:
    truth, sizes = stand_ins.cluster.truth.pods, stand_ins.sizes
    return tuple(
        PodRecord(
            f"{pod.namespace}/{pod.name}",
            _seconds(stand_ins, pod.created),
            _maybe(stand_ins, pod.scheduled),
            _maybe(stand_ins, pod.finished or pod.deleted),
            *sizes.by_uid[uid],
        )
        for uid, pod in truth.items()
        if uid in sizes.by_uid
    )


def _machines(stand_ins: StandIns) -> tuple[MachineRecord, ...]:
    found = []
    for vm in stand_ins.arm.truth.vms:
        pool = stand_ins.config.pool(stand_ins.pool_of(vm.resource, vm.tags))
        if pool is not None:
            cores, gpus = _size(pool)
            created, deleted = _seconds(stand_ins, vm.created_at), _maybe(stand_ins, vm.deleted_at)
            found.append(MachineRecord(vm.name, pool.name, vm.spot, created, deleted, cores, gpus))
    return tuple(found)


def _size(pool: Pool) -> tuple[float, int]:
    return pool.shape.get("cpu", 0) / 1000, pool.shape.get(GPU, 0)


def _growths(stand_ins: StandIns) -> tuple[GrowthRecord, ...]:
    return tuple(
        GrowthRecord(
            _pool_by_resource(stand_ins.config, operation.resource),
            _seconds(stand_ins, operation.started_at),
            _maybe(stand_ins, operation.ended_at),
            operation.code,
        )
        for operation in stand_ins.arm.cloud.operations.by_id.values()
        if operation.name in _GROWTHS
    )


def _pool_by_resource(config: Config, resource: str) -> str:
    """Of a scale set by its name, of a stand-alone VM by the prefix of its own."""
    lowered = resource.lower()
    exact = next((pool.name for pool in config.pools if pool.resource.lower() == lowered), "")
    return exact or next((pool.name for pool in config.pools if lowered.startswith(pool.resource.lower())), "")


def _leaks(stand_ins: StandIns) -> Leaks:
    """VMs beyond their pool's minimum, youngest first, and what outlived its VM."""
    leaks = stand_ins.arm.truth.leaks()
    vms: list[str] = []
    for pool in stand_ins.config.pools:
        standing = [
            vm.name for vm in stand_ins.arm.truth.live_vms() if stand_ins.pool_of(vm.resource, vm.tags) == pool.name
        ]
        vms += standing[pool.minimum :]
    nodes = nodes_without_vm(stand_ins.evidence())
    return Leaks(tuple(vms), leaks.nics, leaks.disks, tuple(nodes))
