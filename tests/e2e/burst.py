"""`make e2e-burst`: 2,000 pods at once, from the first apply until the scheduler has bound the last of them.

The workload is b-2000 of the packing benchmark, as Deployments on the real control plane. Everything of Sluice's own is
in the path: exporter, topic, functions, ARM requests. What is not Sluice's takes no time: a VM runs when ARM is asked
for it, and its node registers at once, Ready; kubelets have machines of their own, and none is played on this one.
Cluster-autoscaler took 85 s, and bought for 506.53 an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.ours import config_of, first_plan, manifest, parsed
from bench.workloads import Workload, make
from local.arm.settings import ArmLatencies
from local.machines import BootTimes
from shared.names import STARTING_TAINT
from tests.e2e import audit
from tests.e2e.cluster import eventually
from tests.e2e.control_plane import BinariesMissingError, ControlPlane
from tests.e2e.system import RealSystem
from tests.e2e.witness import NODES, PODS, Change, is_ready

Json = dict[str, Any]

WORKLOAD = "b-2000"
LONGEST, GOAL = 40.0, 20.0
"""Seconds from the first apply until the last pod is bound: the bar, and what is hoped for."""
DEAREST = 506.53
"""Per hour: what cluster-autoscaler's nodes cost."""
GIVEN_UP = 180.0
AT_ONCE = ArmLatencies((0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), 0)
NO_BOOT = BootTimes(boot=(0.0, 0.0), silence=3.0, kubelets=False)
DEBOUNCE = "500ms"
FLAGS = {"kube-controller-manager": ["--node-monitor-grace-period=2h"]}
"""Nobody looks for heartbeats that nobody sends."""
NOT_READY = "node.kubernetes.io/not-ready"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a burst came to; `seconds` is None when pods were left unbound. Stages are (seconds, what happened)."""

    seconds: float | None
    price: float
    planned: float
    nodes: int
    stages: tuple[tuple[float, str], ...]
    cpu: Mapping[str, float]

    @property
    def holds(self) -> bool:
        """Whether it is within the bars."""
        return self.seconds is not None and self.seconds <= LONGEST and self.price < DEAREST


def pools_text(workload: Workload) -> str:
    """A pools file (as JSON, which YAML takes) with the workload's pools as scale sets."""
    pools = [
        {
            "name": pool["name"],
            "sku": f"Standard_{pool['name'].upper()}",
            "max": min(pool["max"], 1000),
            "price": pool["price"],
            "shape": shape_of(pool),
            "reserved": {},
            "labels": pool["labels"],
            "taints": [f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in pool["taints"]],
        }
        for pool in workload["pools"]
    ]
    document = {
        "cluster": "real",
        "mode": "act",
        "azure": {
            "subscription": "00000000-0000-0000-0000-000000000000",
            "resource_group": "sluice",
            "location": "westeurope",
        },
        "pools": pools,
        "scale_down": {"idle_after": "10m"},
        "timing": {"node_join_timeout": "60s", "debounce": DEBOUNCE},
    }
    return json.dumps(document)


def shape_of(pool: Workload) -> Json:
    """What a node of the pool offers."""
    shape = {"cpu": f"{pool['cpu_m']}m", "memory": f"{pool['mem_mi']}Mi", "pods": pool["pods"]}
    return shape | ({"nvidia.com/gpu": pool["gpu"]} if pool["gpu"] else {})


def deployments(workload: Workload) -> list[Json]:
    """One for each kind of pod."""
    made = []
    for kind in workload["pods"]:
        written = manifest(kind)
        template = {"metadata": {"labels": kind["labels"]}, "spec": written["spec"]}
        spec = {"replicas": kind["count"], "selector": {"matchLabels": kind["labels"]}, "template": template}
        made.append({"metadata": {"name": kind["name"]}, "spec": spec})
    return made


def run(workload: Workload, system: RealSystem) -> Outcome:
    """Apply, and wait."""
    total = sum(kind["count"] for kind in workload["pods"])
    manifests = deployments(workload)
    before = {name: cpu_seconds(pid) for name, pid in system.pids.items()}
    begun = datetime.now().astimezone()
    for body in manifests:
        system.cluster.deploy(body)
    applied = (datetime.now().astimezone() - begun).total_seconds()
    try:
        eventually("all are bound", lambda: len(bound(system)) == total, GIVEN_UP)
        seconds: float | None = max((at - begun).total_seconds() for at in bound(system).values())
    except AssertionError:
        seconds = None
    prices = {pool["name"]: pool["price"] for pool in workload["pools"]}
    machines = system.azure.machines_now()
    price = sum(prices[name] * number for name, number in machines.items())
    planned = first_plan(parsed(workload, seed=1), config_of(workload)).cost_per_hour
    stages = ((applied, f"{len(manifests)} Deployments are applied"), *stages_of(system, begun, total))
    cpu = {name: cpu_seconds(pid) - before[name] for name, pid in system.pids.items()}
    return Outcome(seconds, price, planned, sum(machines.values()), tuple(sorted(stages)), cpu)


def cpu_seconds(pid: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bound(system: RealSystem) -> dict[str, datetime]:
    """When each pod was first seen on a node."""
    found: dict[str, datetime] = {}
    for change in list(system.witness.seen[PODS]):
        if change.object["spec"].get("nodeName"):
            found.setdefault(change.object["metadata"]["uid"], change.at)
    return found


def stages_of(system: RealSystem, begun: datetime, total: int) -> list[tuple[float, str]]:
    """When the first and the last of each kind of thing happened."""
    pods, nodes = list(system.witness.seen[PODS]), list(system.witness.seen[NODES])
    created = _first_seen(pods, lambda _: True)
    told = _first_seen(pods, _reported)
    nominated = _first_seen(pods, lambda pod: bool(pod.get("status", {}).get("nominatedNodeName")))
    opened = _first_seen(nodes, lambda node: is_ready(node) and not _closed(node))
    registered, ready = _first_seen(nodes, lambda _: True), _first_seen(nodes, is_ready)
    bindings = sorted(bound(system).values())
    with system.timeline.lock:
        writes = [write for write in system.truth.writes if write.at >= begun]
    said = sorted(_transition(pod) for pod in system.cluster.api.list(PODS)[0] if pod["spec"].get("nodeName"))
    marks: list[tuple[datetime, str]] = [
        *(
            (said[len(said) * part // 100 - 1], f"{part} % are bound, by the API server")
            for part in (1, 10, 25, 50, 75, 90, 100)
        ),
        *_span(created, "pods are created"),
        *_span(told, "pods are reported Unschedulable"),
        *((at, f"the app gets {kind}") for at, kind in system.delivered if at >= begun),
        *((write.at, f"ARM accepts {write.operation} of {write.resource} to {write.target}") for write in writes),
        *_span(registered, "nodes are registered"),
        *_span(ready, "nodes are ready"),
        *_span(nominated, "pods are nominated"),
        *_span(opened, "nodes are open"),
    ]
    if bindings:
        marks.append((bindings[0], "the first pod is bound"))
        marks += [
            (bindings[len(bindings) * part // 100 - 1], f"{part} % of those bound so far are bound")
            for part in (50, 90, 99, 100)
        ]
        marks.append((bindings[-1], f"{len(bindings)} of {total} pods are bound"))
    return [((at - begun).total_seconds(), what) for at, what in marks]


def _transition(pod: Json) -> datetime:
    (one,) = [one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
    return datetime.fromisoformat(one["lastTransitionTime"])


def _span(found: Sequence[datetime], what: str) -> list[tuple[datetime, str]]:
    if not found:
        return []
    return [(found[0], f"the first of {len(found)} {what}"), (found[-1], f"all {len(found)} {what}")]


def _first_seen(changes: Sequence[Change], met: Callable[[Json], bool]) -> list[datetime]:
    found: dict[str, datetime] = {}
    for change in changes:
        if met(change.object):
            found.setdefault(change.object["metadata"]["uid"], change.at)
    return sorted(found.values())


def _closed(node: Json) -> bool:
    return any(taint["key"] in (STARTING_TAINT, NOT_READY) for taint in node["spec"].get("taints") or ())


def _reported(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it, show the time line, judge it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default=WORKLOAD)
    parser.add_argument("--keep", type=Path, help="keep all logs in this folder")
    parser.add_argument("--open", action="store_true", help="nodes join without the startup taint: nobody is nominated")
    given = parser.parse_args(arguments)
    workload = make(given.workload)
    with ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            plane = stack.enter_context(ControlPlane(directory=folder / "control-plane", flags=FLAGS))
        except BinariesMissingError as error:
            sys.stdout.write(f"no real control plane: {error}\n")
            return 1
        text = pools_text(workload)
        (folder / "system").mkdir()
        system = RealSystem(
            plane,
            audit.log_path(folder),  # none is kept: it would cost time
            folder / "system",
            text,
            latencies=AT_ONCE,
            boot=replace(NO_BOOT, startup_taint=not given.open),
            tidy=False,
        )
        with system:
            load = os.getloadavg()[0]
            outcome = run(workload, system)
            if outcome.seconds is None:
                sys.stdout.write(system.account() + "\n")
            return show(given.workload, outcome, load)


def show(name: str, outcome: Outcome, load: float) -> int:
    """The time line, and the figure on the last line; the exit code."""
    for seconds, what in outcome.stages:
        sys.stdout.write(f"{seconds:8.2f} s  {what}\n")
    used = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sorted(outcome.cpu.items(), key=lambda one: -one[1]))
    sys.stdout.write(f"CPU seconds: {used}\n")
    took = "never all bound" if outcome.seconds is None else f"all bound after {outcome.seconds:.1f} s"
    verdict = "holds" if outcome.holds else "FAILED"
    sys.stdout.write(
        f"{name}: {took} (at most {LONGEST:g}, goal {GOAL:g}), {outcome.nodes} nodes for {outcome.price:.2f} per hour "
        f"(planned {outcome.planned:.2f}, below {DEAREST}); load before {load:.1f}: {verdict}\n"
    )
    return 0 if outcome.holds else 1


if __name__ == "__main__":
    sys.exit(main())
