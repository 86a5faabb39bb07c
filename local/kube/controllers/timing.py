"""How long things take that a real cluster takes its time for."""

from __future__ import annotations

import random
from dataclasses import dataclass

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds; a span is drawn from evenly.

    `node_ready`: a Node object appears until its kubelet says Ready. `pod_start`: binding until the containers run
    (images are taken for present). `pod_stop`: how long containers take to end, cut off by the grace period.
    `node_silence`: a kubelet's last word until the node counts as lost (--node-monitor-grace-period, 50 s since 1.32).
    `orphan_pods`: a Node object is deleted until its pods are collected (pod GC: every 20 s, after 40 s of quarantine).
    `event_life`: how long Events are kept (--event-ttl). `job_run`: how long a Job's pod runs without an annotation.
    """

    node_ready: Span = (0.5, 2.0)
    pod_start: Span = (1.0, 4.0)
    pod_stop: Span = (0.2, 1.5)
    node_silence: float = 50.0
    orphan_pods: Span = (40.0, 60.0)
    event_life: float = 3600.0
    job_run: Span = (1.0, 3.0)


def draw(draws: random.Random, span: Span) -> float:
    """One of the span's values."""
    return draws.uniform(*span)
