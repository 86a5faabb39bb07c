"""What the app says of its own pools files, of Azure as it reaches it, and of its rights in its clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from functions.cluster_rights import GANGS, VOLUMES
from local.doctor.findings import Cause, Check, Finding

Json = dict[str, Any]
_CHART = "upgrade the release of the chart sluice-exporter, whose functions.* values say who the app is there"
_PARTS = {VOLUMES: "volumes: true", GANGS: "gangs"}


def judge_pools_file(cluster: str, problems: Sequence[str]) -> Finding:
    """The file in the app's storage, and the templates that it names."""
    check = Check("pools-file", cluster)
    if not problems:
        return check.ok("is valid, and in force")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    remedy = f"correct config/{cluster}.yaml in the app's storage; sluice plan --pools FILE lists all that is wrong"
    return check.failed(f"{problems[0]}{more}", remedy)


def judge_azure(cluster: str, places: Sequence[Json]) -> Iterator[Finding]:
    """Readings that the app tried as itself, place by place."""
    for place in places:
        scope = place["scope"]
        check = Check("azure", f"{scope['resource_group']} ({place['kind']}) of {cluster}")
        failed = next((tried for tried in place["tried"] if not tried["ok"]), None)
        if failed is None:
            yield check.ok("the app reads its pools there")
        elif failed["kind"] == "unreachable":
            remedy = "let the app's subnet out to the service tag AzureResourceManager on port 443"
            yield check.failed(f"ARM does not answer the app: {failed['reason']}", remedy, Cause.UNREACHABLE)
        elif failed["kind"] == "refused":
            remedy = "assign the app the role of infra/roles for this kind of pool on that resource group"
            yield check.failed(f"the app may not read {failed['what']}: {failed['reason']}", remedy, Cause.RIGHTS)
        else:
            remedy = "see the message; when it is Azure's own trouble, ask again in some minutes"
            yield check.failed(f"the app cannot read {failed['what']}: {failed['reason']}", remedy)


def judge_cluster_rights(cluster: str, rights: Sequence[Json]) -> Iterator[Finding]:
    """By the API server's own word for each right. What a value of the chart may leave out is a warning."""
    denied = [right for right in rights if not right["allowed"]]
    check = Check("cluster-rights", cluster)
    if not denied:
        yield check.ok(f"the app has all {len(rights)} rights that it needs there")
    for right in denied:
        resource = ".".join(filter(None, (right["resource"], right["group"])))
        told = f"the app may not {right['verb']} {resource}: {right['without']}"
        if right["part"]:
            yield check.warning(told, f"set {_PARTS[right['part']]} in the chart's values, if the cluster needs it")
        else:
            yield check.failed(told, _CHART, Cause.RIGHTS)
