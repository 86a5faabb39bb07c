"""Pods that get what is left on nodes, and nothing is bought for them.

Those below the priority cut-off are what cluster-autoscaler calls expendable pods. Nor do they need another place when
their node goes. Members of gangs are none: a gang is served whole or not at all. Others pause for a while, since what
was bought for them did not serve them (`shared.planning.in_vain`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shared.model import Config, PodClass, PodShape
from shared.nodes.supply import Site
from shared.nodes.template_node import take
from shared.packing.allocation import Allocation, Effort
from shared.packing.placing import allocate
from shared.packing.pool_choice import PoolState
from shared.rules.tallies import Place

_NOT_FOR_THEM = "PriorityCutoff"


def last_the_expendable(
    classes: Sequence[PodClass], config: Config, in_vain: Mapping[PodShape, str]
) -> tuple[list[PodClass], list[PodClass]]:
    """The classes that nodes may be bought for, and the others: those that pause, and those below the cut-off."""
    wanted, pausing, expendable = [], [], []
    for each in classes:
        if is_expendable(each.shape, config):
            expendable.append(each)
        elif in_vain and each.shape in in_vain:
            pausing.append(each)
        else:
            wanted.append(each)
    return wanted, [*pausing, *expendable]


def is_expendable(shape: PodShape, config: Config) -> bool:
    """Whether nothing is bought for such a pod."""
    return shape.priority < config.priority_cutoff and not shape.gang


def nothing_bought(config: Config, in_vain: Mapping[PodShape, str], shape: PodShape) -> str:
    """Why nothing is bought for the pod."""
    if shape in in_vain:
        return in_vain[shape]
    return f"{_NOT_FOR_THEM}: priority {shape.priority} is below {config.priority_cutoff}, such pods cause no growth"


def with_expendable(
    allocation: Allocation,
    classes: Sequence[PodClass],
    expendable: Sequence[PodClass],
    sites: Sequence[Site],
    states: Sequence[PoolState],
    around: Sequence[Place],
) -> Allocation:
    """The allocation of `classes`, and what it leaves on the sites given to the others, as rows after them."""
    left = [_left_of(site, allocation.on_sites.get(number, {}), classes) for number, site in enumerate(sites)]
    new = [_place_of(states[pool], content, classes) for pool, content in allocation.bought]
    shut = [replace(state, barred=state.barred or _NOT_FOR_THEM) for state in states]
    more = allocate(expendable, left, shut, [*around, *new], effort=Effort.FIRST)
    on_sites = {site: dict(content) for site, content in allocation.on_sites.items()}
    for site, content in more.on_sites.items():
        rows = {len(classes) + row: pods for row, pods in content.items()}
        on_sites.setdefault(site, {}).update(rows)
    refusals = {len(classes) + row: told for row, told in more.refusals.items()}
    return Allocation(on_sites, allocation.bought, [*allocation.left, *more.left], {**allocation.refusals, **refusals})


def _left_of(site: Site, content: Mapping[int, int], classes: Sequence[PodClass]) -> Site:
    """A node that would have to be called back is not, for such pods alone."""
    if site.recalled and not content:
        return replace(site, free={})
    if not content:
        return site
    free, ports = dict(site.free), site.host_ports
    for row, pods in content.items():
        take(free, classes[row].shape, pods)
        ports += classes[row].shape.host_ports
    taken = tuple((classes[row].shape, pods) for row, pods in content.items())
    return replace(site, free=free, host_ports=ports, content=site.content + taken, fresh=False)


def _place_of(state: PoolState, content: Mapping[int, int], classes: Sequence[PodClass]) -> Place:
    daemons = tuple((shape, 1) for shape in state.template.daemons)
    return Place(state.template.grounds, daemons + tuple((classes[row].shape, pods) for row, pods in content.items()))
