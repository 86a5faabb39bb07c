"""All controllers over one registry."""

from __future__ import annotations

from local.kube.controllers.budgets import Budgets
from local.kube.controllers.collector import Collector
from local.kube.controllers.kubelet import Kubelets
from local.kube.controllers.lifecycle import NodeLifecycle
from local.kube.controllers.recorder import Recorder
from local.kube.controllers.scheduler import Scheduler
from local.kube.controllers.timing import Timing
from local.kube.controllers.workloads import Workloads
from local.kube.registry import Registry
from local.kube.trouble import Misfortune
from local.randomness import stream


class Controllers:
    """Made once per cluster; they live by the changes they see."""

    def __init__(self, registry: Registry, seed: int, timing: Timing, misfortune: Misfortune) -> None:
        self.recorder = Recorder(registry, timing.event_life)
        self.scheduler = Scheduler(registry, self.recorder, stream(seed, "kubernetes", "scheduler"))
        self.kubelets = Kubelets(registry, stream(seed, "kubernetes", "kubelets"), timing, misfortune)
        self.lifecycle = NodeLifecycle(registry, stream(seed, "kubernetes", "lifecycle"), timing)
        self.budgets = Budgets(registry)
        self.workloads = Workloads(registry)
        self.collector = Collector(registry)
