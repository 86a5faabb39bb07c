"""Pods with claims, from the sweep's fresh lists to the node that their disk can follow to."""

from __future__ import annotations

from tests.orchestrations.stage import Stage

SWEEP = 300
POOLS = """
cluster: training
mode: act
azure: {subscription: 00000000-0000-0000-0000-000000000001, resource_group: nodes, location: westeurope}
pools:
  - {name: one, resource: one, sku: Standard_D4s_v5, zones: ["1"], price: 0.1, max: 10,
     shape: {cpu: 4, memory: 16Gi, pods: 30}}
  - {name: two, resource: two, sku: Standard_D4s_v5, zones: ["2"], price: 0.2, max: 10,
     shape: {cpu: 4, memory: 16Gi, pods: 30}}
"""
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLAIMING = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def with_disk(zone: str) -> Stage:
    """A cluster with a claim that is bound to a disk in that zone."""
    stage = Stage(POOLS, timers=True)
    place = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "disk.csi.azure.com", "volumeHandle": "/disks/pv-1"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}},
    }
    stage.api.create("/api/v1/persistentvolumes", {"metadata": {"name": "pv-1"}, "spec": spec})
    notes = {"pv.kubernetes.io/bind-completed": "yes"}
    asked = {"volumeName": "pv-1", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    stage.api.create(CLAIMS, {"metadata": {"name": "data", "annotations": notes}, "spec": asked})
    return stage


def test_a_sweep_finds_the_pool_that_the_disk_can_follow_to() -> None:
    stage = with_disk("westeurope-2")
    stage.submit(1, **CLAIMING)
    stage.run(3 * SWEEP)
    assert (stage.machines(), stage.bound()) == ({"one": 0, "two": 1}, ["pod-0"])


def test_a_pod_whose_claim_is_missing_buys_nothing_and_the_status_says_why() -> None:
    stage = Stage(POOLS, timers=True)
    stage.submit(1, **CLAIMING)
    stage.run(3 * SWEEP)
    assert stage.machines() == {"one": 0, "two": 0}
    (unserved,) = stage.status()["clusters"]["training"]["plan"]["unserved"]
    assert set(unserved["reasons"].values()) == {"VolumeBinding: claim default/data does not exist"}


def test_a_node_stays_whose_pods_disk_could_follow_nowhere() -> None:
    stage = with_disk("westeurope-1")
    stage.submit(1, cpu="1", **CLAIMING)
    stage.submit(1, cpu="1", prefix="other", nodeSelector={"topology.kubernetes.io/zone": "westeurope-2"})
    stage.run(3 * SWEEP)
    assert stage.machines() == {"one": 1, "two": 1}
    stage.run(8 * SWEEP)
    assert stage.machines() == {"one": 1, "two": 1}


def test_claims_are_listed_only_where_pods_have_some() -> None:
    stage = Stage(POOLS, timers=True)
    stage.submit(1)
    asked: list[str] = []
    handle = stage.cluster.handle

    def noted(request):  # type: ignore[no-untyped-def]  # as the handler it stands for
        asked.append(request.path)
        return handle(request)

    stage.cluster.handle = noted  # type: ignore[method-assign]  # the door is the test's own
    stage.run(3 * SWEEP)
    assert stage.bound() == ["pod-0"]
    assert not any("persistentvolume" in path for path in asked)
