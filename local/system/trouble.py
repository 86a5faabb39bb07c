"""What may go wrong with Azure and the cluster by chance, in one value; every rate is 0 until it is set.

What happens to events on their way is `local.event_grid.EventFaults`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from local.arm.trouble import ArmTrouble
from local.kube.trouble import ClusterTrouble
from local.node_trouble import NodeTrouble


@dataclass(frozen=True, slots=True)
class Trouble:
    """See the parts for what they mean; `docs/stand-ins.md` says where each kind is known from."""

    arm: ArmTrouble = field(default_factory=ArmTrouble)
    cluster: ClusterTrouble = field(default_factory=ClusterTrouble)
    nodes: NodeTrouble = field(default_factory=NodeTrouble)
