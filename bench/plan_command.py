"""`sluice plan -o json` from outside: ``python -m bench.plan_command [REPEATS]``.

A dump of 15,000 waiting pods in 50 shapes and of 1,000 nodes with three pods each; timed from starting the process to
its end, so loading Python, decoding JSON and writing the answer are in. The answer is checked each time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import ours, workloads

Json = dict[str, Any]

WORKLOAD, NODES, BAR_SECONDS = "b-15000", 1000, 2.0
_KEYS = ("deltas", "fits_existing", "unserved", "cost_per_hour")


def main(arguments: Sequence[str]) -> int:
    """Print the least of some runs; 1 if it misses the bar, or if an answer breaks the contract."""
    repeats = int(arguments[0]) if arguments else 5
    workload = workloads.make(WORKLOAD)
    with tempfile.TemporaryDirectory() as folder:
        cluster, pools = Path(folder, "cluster.json"), Path(folder, "pools.yaml")
        cluster.write_text(json.dumps(dump(workload, NODES)))
        pools.write_text(json.dumps(pools_file(workload)))
        waiting = [f"default/{name}" for name in pod_names(workload)]
        names = [pool["name"] for pool in workload["pools"]]
        times = []
        for _ in range(repeats):
            seconds, printed = timed(cluster, pools)
            times.append(seconds)
            if faults := list(broken(json.loads(printed), waiting, names)):
                print(f"sluice plan: {faults[0]}")
                return 1
    print(f"sluice plan -o json, {len(waiting)} pods and {NODES} nodes: {min(times):.2f} s (bar {BAR_SECONDS:.0f} s)")
    return int(min(times) > BAR_SECONDS)


def timed(cluster: Path, pools: Path) -> tuple[float, bytes]:
    """Seconds of one run, and all that it wrote to standard output."""
    command = [
        sys.executable,
        "-m",
        "local.cli",
        "plan",
        "--cluster",
        str(cluster),
        "--pools",
        str(pools),
        "-o",
        "json",
    ]
    started = time.perf_counter()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return time.perf_counter() - started, done.stdout


def broken(answer: Mapping[str, Any], waiting: Sequence[str], pools: Sequence[str]) -> Iterator[str]:
    """What of the contract of `-o json` does not hold, in words."""
    yield from (f"no {key}" for key in _KEYS if key not in answer)
    met: Counter[str] = Counter()
    for delta in answer["deltas"]:
        if delta["add"] != len(delta["nodes"]):
            yield f"{delta['pool']}: add is {delta['add']}, with {len(delta['nodes'])} nodes"
        for node in delta["nodes"]:
            if not node["pods"]:
                yield f"{delta['pool']}: an empty node"
            met.update(node["pods"])
    for place in answer["fits_existing"]:
        met.update(place["pods"])
    for left in answer["unserved"]:
        met[left["pod"]] += 1
        if set(left["reasons"]) != set(pools):
            yield f"{left['pod']}: reasons for {sorted(left['reasons'])}, not for each pool"
    wrong = [name for name in {*waiting, *met} if met[name] != 1 or name not in set(waiting)][:1]
    yield from (f"{name} is there {met[name]} times" for name in wrong)


def pod_names(workload: Json) -> list[str]:
    """Of all pods that wait."""
    return [f"{kind['name']}-{number:05d}" for kind in workload["pods"] for number in range(kind["count"])]


def dump(workload: Json, nodes: int) -> Json:
    """The workload's pods beside nodes that are mostly full, as `kubectl get pods,nodes -A -o json` writes them."""
    items: list[Json] = []
    for kind in workload["pods"]:
        written = ours.manifest(kind)
        for number in range(kind["count"]):
            name = f"{kind['name']}-{number:05d}"
            meta = {**written["metadata"], "name": name, "uid": f"uid-{name}", "ownerReferences": _OWNER}
            items.append({"apiVersion": "v1", "kind": "Pod", **written, "metadata": meta})
    for number in range(nodes):
        items.append(_node(f"node-{number}"))
        items += [_running(f"running-{number}-{each}", f"node-{number}") for each in range(3)]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def pools_file(workload: Json) -> Json:
    """The workload's pools; JSON is YAML."""
    settings = ours.config_of(workload)
    pools = [
        {
            "name": pool.name,
            "max": pool.maximum,
            "price": pool.price,
            "shape": {"cpu": f"{pool.shape['cpu']}m", **{k: str(v) for k, v in pool.shape.items() if k != "cpu"}},
            "labels": dict(pool.labels),
            "taints": [f"{taint.key}={taint.value}:{taint.effect}" for taint in pool.taints],
        }
        for pool in settings.pools
    ]
    return {"cluster": "bench", "pools": pools}


_OWNER = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app", "controller": True}]


def _node(name: str) -> Json:
    status = {
        "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    meta = {"name": name, "uid": f"uid-{name}", "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": status}


def _running(name: str, node: str) -> Json:
    container = {"name": "main", "resources": {"requests": {"cpu": "1300m", "memory": "5Gi"}}}
    meta = {"namespace": "default", "name": name, "uid": f"uid-{name}", "ownerReferences": _OWNER}
    spec = {"nodeName": node, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Running"}}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
