"""What each pod asked for when it was created: when a report is made, most pods are gone."""

from __future__ import annotations

from local.kube.controllers.needs import requests
from local.kube.kinds import POD
from local.kube.store import ADDED, Change, Store

GPU = "nvidia.com/gpu"
_ATTENDANTS = {"DaemonSet", "Node"}


class PodSizes:
    """Cores and GPUs by uid. DaemonSet and mirror pods are left out: they come with a node and wait for nothing."""

    def __init__(self, store: Store) -> None:
        self.by_uid: dict[str, tuple[float, int]] = {}
        store.subscribe(self._note)

    def _note(self, change: Change) -> None:
        if change.new.kind is not POD or change.type != ADDED:
            return
        owners = {owner.get("kind") for owner in change.new.metadata.get("ownerReferences") or ()}
        if not owners & _ATTENDANTS:
            asked = requests(change.new.spec)
            self.by_uid[change.new.uid] = asked.get("cpu", 0) / 1000, asked.get(GPU, 0)
