"""Reading the group objects of gangs, wherever the cluster has any: nobody has them all."""

from __future__ import annotations

from collections.abc import Iterable

from shared.adapters.errors import NotFound, Refused
from shared.adapters.protocols import ClusterApi, Json
from shared.reading.gang_members import PATHS, groups_asked_for, membership


def pod_groups_of(api: ClusterApi, pods: Iterable[Json]) -> dict[str, list[Json]]:
    """The groups that these pods belong to, by API group: no request where none belongs to any.

    An API that is not served, or that may not be listed, has no objects: the gang's own reason then says so.
    """
    members = (membership(pod) for pod in pods)
    found = {}
    for group in groups_asked_for(member for member in members if member is not None):
        try:
            found[group] = api.list(PATHS[group])[0]
        except (NotFound, Refused):
            continue
    return found
