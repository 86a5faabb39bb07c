"""What the chart grants in a cluster: its roles as Helm renders them, and each single right in them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import yaml

from bench import cache as tool_cache
from tests.infra import tools
from tests.rights.granted import INFRA

Json = dict[str, Any]

EXPORTER, FUNCTIONS = "exporter", "functions"
_VALUES = {
    "cluster": "training",
    "topicEndpoint": "https://t.westeurope-1.eventgrid.azure.net/api/events",
    "storageUrl": "https://s.blob.core.windows.net",
    "clientId": "00000000-0000-0000-0000-00000000000a",
    "tenantId": "00000000-0000-0000-0000-000000000002",
    "image": {"repository": "registry.example.org/sluice-exporter"},
    "functions": {"serviceAccount": {"create": True}},
    "nodeAgent": {"enabled": False},
}


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource for one of the two accounts; `name` where only that object is meant, `namespace` where
    only those in it are."""

    account: str
    group: str
    resource: str
    verb: str
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.account}: {self.verb} {kind}"

    def rule(self) -> Json:
        """As a role has it."""
        rule: Json = {"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb]}
        return rule | ({"resourceNames": [self.name]} if self.name else {})


@cache
def rendered(namespace: str) -> tuple[Json, ...]:
    """The chart's manifests in that namespace; without Helm the calling test is skipped, and fails in CI."""
    try:
        helm = str(tools.build(tools.HELM))
    except tool_cache.ToolMissing as error:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"no Helm: {error}")
    chart = str(INFRA / "helm" / "sluice-exporter")
    command = [helm, "template", "sluice", chart, "--namespace", namespace, "--kube-version", "1.36.0", "-f", "-"]
    done = subprocess.run(command, input=yaml.safe_dump(_VALUES), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(each for each in yaml.safe_load_all(done.stdout) if each)


def rights(namespace: str) -> list[Right]:
    """Every single right of both accounts."""
    return [
        right
        for role in rendered(namespace)
        if role["kind"] in {"ClusterRole", "Role"}
        for right in _of_role(role, FUNCTIONS if role["metadata"]["name"].endswith(FUNCTIONS) else EXPORTER)
    ]


def _of_role(role: Json, account: str) -> Iterator[Right]:
    where = role["metadata"].get("namespace", "") if role["kind"] == "Role" else ""
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        yield Right(account, group, resource, verb, name, where)
