"""A real Kubernetes control plane for tests: five programs on loopback, no containers.

What Sluice claims about scheduling, eviction, budgets and gangs is only worth
something against the real scheduler and API server, so the tests bring their
own. Build once with ``python -m tests.e2e.control_plane.build`` (six to twelve
minutes from nothing, then cached), then::

    with ControlPlane() as cluster:
        use(cluster.url, cluster.token)  # or cluster.kubeconfig

Nodes exist only as objects: kwok plays the kubelet of every node annotated
``kwok.x-k8s.io/node: fake``, keeps its lease fresh, and runs and ends the pods
bound to it. A node without the annotation never becomes ready, which is how a
machine that hangs while joining is told.
"""

from tests.e2e.control_plane.api import Api, Reply
from tests.e2e.control_plane.binaries import Binaries, BinariesMissingError
from tests.e2e.control_plane.cluster import ControlPlane
from tests.e2e.control_plane.process import StartError

__all__ = ["Api", "Binaries", "BinariesMissingError", "ControlPlane", "Reply", "StartError"]
