"""Whether the exporter speaks: a quiet cluster has nothing to say, but who holds the Lease renews it all the time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from local.doctor.findings import Check, Finding

Json = dict[str, Any]
LEASE_NAME = "sluice-exporter"
_LOG = "kubectl -n {namespace} logs deployment/sluice-exporter says why, and kubectl get pods whether it runs at all"
_ON_THE_HOST = (
    "set nodeAgent.hostNetwork: true in the chart, and a nodeAgent.namespace of its own, which base must know as"
    " node_agent_namespace"
)
_INSTALL = "install the chart infra/helm/sluice-exporter into the cluster"


def judge(cluster: str, leases: Iterable[Json], now: datetime) -> Finding:
    """`leases` of the exporter's name in any namespace; `now` by the API server's clock."""
    check = Check("exporter", cluster)
    held = sorted(leases, key=lambda lease: str(lease["spec"].get("renewTime") or ""))
    if not held:
        return check.failed(f"there is no Lease {LEASE_NAME}: no exporter has ever run in the cluster", _INSTALL)
    newest = held[-1]
    namespace, spec = newest["metadata"]["namespace"], newest["spec"]
    log = _LOG.format(namespace=namespace)
    if not spec.get("holderIdentity"):
        return check.failed(f"nobody holds the Lease {namespace}/{LEASE_NAME}: the exporter was stopped", log)
    silent = now - datetime.fromisoformat(str(spec["renewTime"]))
    if silent > 2 * timedelta(seconds=int(spec.get("leaseDurationSeconds") or 30)):
        return check.failed(f"{spec['holderIdentity']} has been silent for {silent.total_seconds():.0f} s", log)
    return check.ok(f"{spec['holderIdentity']} speaks, epoch {spec.get('leaseTransitions', 0)}")


def judge_agents(cluster: str, pods: Sequence[Json], *, spot: bool, restricted: bool) -> Finding | None:
    """The node agents on Spot nodes. `restricted`: AKS keeps the metadata service from pods (podLinkLocalAccess)."""
    check = Check("node-agent", cluster)
    if not pods:
        remedy = "set nodeAgent.enabled: true in the chart, or live with evictions that come without a warning"
        return check.skipped("no node agent runs in the cluster", remedy) if spot else None
    inside = [pod for pod in pods if not pod["spec"].get("hostNetwork")]
    if restricted and inside:
        told = (
            "AKS keeps 169.254.169.254 from pods (podLinkLocalAccess: None), and the node agents run in pods' network"
        )
        return check.failed(told, _ON_THE_HOST)
    unwell = [pod["metadata"]["name"] for pod in pods if not _ready(pod)]
    if unwell:
        told = f"{len(unwell)} of {len(pods)} node agents are not ready ({unwell[0]})"
        asked = (
            f"kubectl logs {unwell[0]}: where it cannot reach 169.254.169.254 from the pods' network, {_ON_THE_HOST}"
        )
        return check.warning(told, asked)
    return check.ok(f"{len(pods)} node agents listen for evictions; nodeAgent.hostNetwork is not needed")


def _ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
