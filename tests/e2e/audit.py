"""The API server's own record of who wrote what: a witness that neither Sluice nor its tests can influence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.e2e.identities import GROUP

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": [GROUP], "verbs": ["create", "update", "patch", "delete"]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One answered request that meant to write; `code` is the HTTP status of the answer."""

    at: datetime
    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int

    @classmethod
    def of(cls, event: dict[str, Any]) -> Entry:
        """From the log's JSON."""
        target = event.get("objectRef") or {}
        resource = "/".join(part for part in (target.get("resource", ""), target.get("subresource", "")) if part)
        return cls(
            at=datetime.fromisoformat(event["stageTimestamp"]),
            user=event["user"]["username"],
            verb=event["verb"],
            resource=resource,
            namespace=target.get("namespace", ""),
            name=target.get("name", ""),
            code=event.get("responseStatus", {}).get("code", 0),
        )


class AuditLog:
    """The writes of Sluice's two accounts since this object was made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin = path.stat().st_size if path.exists() else 0

    def entries(self, user: str = "", resource: str = "", verb: str = "") -> list[Entry]:
        """In order; an empty argument means any."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as log:
            log.seek(self._begin)
            lines = log.read().split(b"\n")[:-1]  # the last one may be half written
        found = [Entry.of(json.loads(line)) for line in lines]
        wanted = (user, resource, verb)
        return [one for one in found if all(a in ("", b) for a, b in zip(wanted, _of(one), strict=True))]


def _of(entry: Entry) -> tuple[str, str, str]:
    return entry.user, entry.resource, entry.verb


def flags(folder: Path) -> Sequence[str]:
    """What kube-apiserver needs to keep the log at `log_path(folder)`, written before each request is answered."""
    folder.mkdir(parents=True, exist_ok=True)
    policy = folder / "policy.json"
    policy.write_text(json.dumps(POLICY))
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log_path(folder)}",
        "--audit-log-mode=blocking",
    ]


def log_path(folder: Path) -> Path:
    """Where the log lies."""
    return folder / "audit.log"
