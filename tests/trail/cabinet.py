"""A store in memory, and orders as sagas carry them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from functions.services import Services
from functions.world import World
from shared.adapters.errors import NotFound, StaleWrite
from shared.adapters.protocols import Blob

Json = dict[str, Any]
AT = "2026-03-01T12:00:00+00:00"


class Cabinet:
    """As much of a `BlobStore` as the trail needs; counts what it is asked."""

    def __init__(self) -> None:
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.puts = self.gets = 0

    def get(self, container: str, name: str) -> Blob:
        """Raises NotFound."""
        self.gets += 1
        if (container, name) not in self.blobs:
            raise NotFound(f"no blob {name}")
        return Blob(self.blobs[container, name], "1")

    def put(self, container: str, name: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        """Raises StaleWrite when it is there and must not be."""
        self.puts += 1
        if if_absent and (container, name) in self.blobs:
            raise StaleWrite(f"blob {name} is there")
        self.blobs[container, name] = data
        return "1"

    def list(self, container: str, prefix: str = "") -> list[str]:
        """In order."""
        return sorted(name for where, name in self.blobs if where == container and name.startswith(prefix))


def world_of(cabinet: Any) -> World:
    """A world of which only the store is there."""
    return World(Services(None, None, lambda: cabinet, lambda: datetime(2026, 3, 1, tzinfo=UTC)))  # type: ignore[arg-type]  # neither Azure nor a cluster is asked


def order() -> Json:
    """What a retirement's activities are called with."""
    return {"cluster": "training", "op": "op1", "node": "node-1", "uid": "uid-node-1", "pool": "spot", "now": AT}


def pod(name: str, uid: str = "") -> Json:
    """A pod of the API."""
    return {"metadata": {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"}}
