"""The real cluster as the tests' own administrator sees it, and how it is emptied after each of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from shared.adapters.errors import NotFound, OutsideError
from shared.adapters.kubernetes import KubernetesClusterApi
from tests.e2e.workloads import ATTACHMENTS, BUDGETS, DEFAULT_PODS, DEPLOYMENTS

Json = dict[str, Any]
NODES = "/api/v1/nodes"
POLL_SECONDS = 0.1
DEADLINE_SECONDS = 60.0


def eventually(what: str, met: Callable[[], Any], seconds: float = DEADLINE_SECONDS) -> Any:
    """Wait until `met` returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while not (found := met()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(POLL_SECONDS)
    return found


class Cluster:
    """An administrator's hands."""

    def __init__(self, api: KubernetesClusterApi) -> None:
        self.api = api

    def deploy(self, body: Json) -> None:
        """Make a Deployment."""
        self.api.create(DEPLOYMENTS, body)

    def pods(self, app: str) -> list[Json]:
        """The pods of an app that are not on their way out."""
        found, _ = self.api.list(DEFAULT_PODS, label_selector=f"app={app}")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def running(self, app: str) -> list[Json]:
        """Those that run."""
        return [pod for pod in self.pods(app) if pod["status"].get("phase") == "Running"]

    def places(self, app: str) -> list[str]:
        """The node of each running pod."""
        return sorted(pod["spec"]["nodeName"] for pod in self.running(app))

    def node(self, name: str) -> Json | None:
        """A node, or None when it is not there."""
        try:
            return self.api.get(f"{NODES}/{name}")
        except NotFound:
            return None

    def node_names(self) -> list[str]:
        """All of them."""
        return sorted(node["metadata"]["name"] for node in self.api.list(NODES)[0])

    def undeploy(self, *apps: str) -> None:
        """Delete Deployments and wait for their pods to be gone."""
        for app in apps:
            self.api.delete(f"{DEPLOYMENTS}/{app}")
        eventually(f"the pods of {', '.join(apps)} are gone", lambda: not any(self.pods(app) for app in apps))

    def empty(self) -> None:
        """Leave nothing of a test behind, whatever became of it."""
        for path in (DEPLOYMENTS, BUDGETS, ATTACHMENTS, DEFAULT_PODS, NODES):
            eventually(f"{path} is empty", partial(self._emptied, path))

    def _emptied(self, path: str) -> bool:
        items = self.api.list(path)[0]
        for item in items:
            try:
                self.api.delete(f"{path}/{item['metadata']['name']}", grace_seconds=0)
            except OutsideError:
                continue  # gone by itself, or in use for a moment: looked at again
        return not items
