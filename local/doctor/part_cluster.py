"""What the clusters say: to the app, by its own word, and to whoever runs the doctor, by a kubeconfig."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from local.doctor import judging_app, judging_exporter, judging_nodes, judging_reach, judging_versions
from local.doctor.clocks import Clocks
from local.doctor.findings import Cause, Check, Finding
from local.doctor.part_azure import AzurePart
from local.doctor.probing_cluster import OperatorsCluster
from local.doctor.target import Target
from shared.adapters.errors import OutsideError, Refused, Unreachable
from shared.model import Config, Priority

Json = dict[str, Any]
_LEASES = "/apis/coordination.k8s.io/v1/leases"
_AGENTS = "app.kubernetes.io/component=node-agent"


def judge_said(said: Mapping[str, Json], azure: AzurePart | None) -> Iterator[Finding]:
    """The app's own word on Azure, on its API servers, and on its rights there."""
    for cluster, word in said.items():
        yield from judging_app.judge_azure(cluster, word["azure"])
        if word["api_server"]:
            managed = azure.managed(cluster) if azure is not None else None
            yield judging_reach.judge(cluster, word["api_server"], judging_reach.way_of(managed))
        if word["rights"]:
            yield from judging_app.judge_cluster_rights(cluster, word["rights"])


def look_into(target: Target, config: Config, azure: AzurePart | None, clocks: Clocks) -> Iterator[Finding]:
    """By the caller's own kubeconfig, whose cluster is that of the pools file."""
    check = Check("cluster", config.cluster)
    try:
        cluster = OperatorsCluster(target.kubeconfig, target.context)
        said = cluster.version()
        clocks.header("the API server", said.date)
        yield check.ok("answers this machine")
        yield judging_versions.judge_cluster(config.cluster, said.version)
        yield from judging_nodes.judge(config, cluster.items("/api/v1/nodes"))
        now = clocks.now() + clocks.offsets["the API server"] if "the API server" in clocks.offsets else clocks.now()
        leases = cluster.items(_LEASES, field=f"metadata.name={judging_exporter.LEASE_NAME}")
        yield judging_exporter.judge(config.cluster, leases, now)
        agents = judging_exporter.judge_agents(
            config.cluster,
            cluster.items("/api/v1/pods", label=_AGENTS),
            spot=any(pool.priority is Priority.SPOT for pool in config.pools),
            restricted=azure is not None and azure.restricts_metadata(config.cluster),
        )
        yield from [agents] if agents is not None else []
    except Unreachable as error:
        remedy = (
            "run the doctor where the API server can be reached, or leave --kubeconfig out: the app's way is judged"
        )
        yield check.failed(f"does not answer this machine: {error.message}", remedy, Cause.UNREACHABLE)
    except Refused as error:
        remedy = "take a kubeconfig that may read nodes, pods and leases; what the app may do is judged apart from it"
        yield check.failed(f"refuses you: {error.message}", remedy, Cause.RIGHTS)
    except OutsideError as error:
        yield check.failed(error.message, "see the message, and name another kubeconfig if it is about that")
