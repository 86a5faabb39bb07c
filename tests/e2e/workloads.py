"""Manifests as people write them, reduced to what these tests are about."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEFAULT_PODS = "/api/v1/namespaces/default/pods"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"


def pod_spec(cpu: str, **more: Any) -> Json:
    """One container that asks for `cpu`."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {"terminationGracePeriodSeconds": 1, "containers": [container], **more}


def deployment(app: str, replicas: int, cpu: str, **spec: Any) -> Json:
    """`replicas` pods labelled app=`app`; `spec` goes into the pods'."""
    labels = {"app": app}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(cpu, **spec)}
    return {
        "metadata": {"name": app},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def bare_pod(name: str, cpu: str, **spec: Any) -> Json:
    """A pod that no controller would make again."""
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": pod_spec(cpu, **spec)}


def budget(app: str, min_available: int) -> Json:
    """A PodDisruptionBudget over a deployment."""
    spec = {"minAvailable": min_available, "selector": {"matchLabels": {"app": app}}}
    return {"metadata": {"name": app}, "spec": spec}


def attachment(name: str, node: str, volume: str) -> Json:
    """What the attach/detach controller writes for a CSI volume on a node."""
    source = {"persistentVolumeName": volume}
    return {"metadata": {"name": name}, "spec": {"attacher": "disk.csi.azure.com", "nodeName": node, "source": source}}


def apart_by_host(app: str) -> Json:
    """Required anti-affinity to the app's own pods."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
