"""Where the parts of an embedded system can be reached: written by the process that serves them, read by all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

STATE = "state"  # the folder of logs, journal, blobs and addresses below an embedded system's output folder
FUNCTIONS_PORT = "functions.port"


def functions_url(out: Path) -> str:
    """Where the Functions host of the embedded system in `out` listens, or listened when it ran last. Raises OSError
    or ValueError when there is none."""
    return f"http://127.0.0.1:{int((out / STATE / FUNCTIONS_PORT).read_text())}"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Base URLs without trailing slash, and the two secrets of the stand-ins, worth nothing outside.

    `certificate`: the file by which an API server with TLS is known; empty for the stand-in. `functions_cluster`: the
    API server's door for the functions, by which their doings are told from everybody else's; empty where it has none.
    `installation`: what `local.doctor.installation.Installation` takes, the app's address aside.
    """

    arm: str
    cluster: str
    blobs: str
    topic: str
    control: str
    token: str
    topic_key: str
    certificate: str = ""
    functions_cluster: str = ""
    installation: Mapping[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Whole or not at all: who finds the file finds everything."""
        part = path.with_suffix(".part")
        part.write_bytes(orjson.dumps(asdict(self)))
        part.replace(path)

    @classmethod
    def read(cls, path: Path) -> Endpoints:
        """Raises FileNotFoundError until the stand-ins are up."""
        return cls(**orjson.loads(path.read_bytes()))
