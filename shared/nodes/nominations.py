"""Pods that were told which node to go to: as long as there is room for them, they have a home and are no demand.

kube-scheduler tries a pod's nominated node first, and keeps the room there from pods of no higher priority. It forgets
nominations that do not come true, so nobody else has to; but until then neither may the room be given away twice, nor
may a pod wait for a node that is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from shared.model import Gang, NodeView, PodClass, PodRef, PodShape, Snapshot
from shared.nodes.supply import Site
from shared.nodes.template_node import fits, take
from shared.reading.gang_members import gang_name, role_name
from shared.rules.predicates import static_refusal

Held = Mapping[str, Mapping[PodShape, int]]
"""By node: the pods that room is kept for."""


def settle(snapshot: Snapshot, sites: Sequence[Site]) -> tuple[Snapshot, list[Site], Held]:
    """The pods that are still to be placed, and what is left for them where nominated pods will come.

    A pod whose node is no place for pods (gone, cordoned, retiring), or full of others, is to be placed like any other.
    What is being deleted there counts as gone: preemption nominates before its victims have left.
    """
    told: dict[str, list[PodClass]] = {}
    for each in snapshot.pending:
        if each.nominated:
            told.setdefault(each.nominated, []).append(each)
    if not told:
        return snapshot, list(sites), {}
    nodes = {node.name: node for node in snapshot.nodes if node.name in told}
    settled, homeless, held = [], {id(each): each.pods for found in told.values() for each in found}, {}
    for site in sites:
        if site.target in nodes:
            rest, held[site.target] = _with_guests(site, nodes[site.target], told[site.target], homeless)
            settled.append(rest)
        else:
            settled.append(site)
    pending = [replace(each, pods=homeless.get(id(each), each.pods)) for each in snapshot.pending]
    gangs = tuple(_rest_of(gang, held) for gang in snapshot.gangs)
    return replace(snapshot, pending=tuple(each for each in pending if each.pods), gangs=gangs), settled, held


def _rest_of(gang: Gang, held: Held) -> Gang:
    """What is to be planned of a gang besides its members that have a home."""
    there = Counter[str]()
    for pods in held.values():
        for shape, number in pods.items():
            if shape.gang and gang_name(shape.gang) == gang.name:
                there[role_name(shape.gang)] += number
    if not there:
        return gang
    roles = tuple((role, max(0, least - there[role])) for role, least in gang.roles)
    return replace(gang, minimum=max(0, gang.minimum - there.total()), roles=roles)


def _with_guests(
    site: Site, node: NodeView, told: Iterable[PodClass], homeless: dict[int, tuple[PodRef, ...]]
) -> tuple[Site, Counter[PodShape]]:
    """The site less the room of those who will come; who does not fit any more stays among the homeless."""
    room = {name: amount + node.leaving.get(name, 0) for name, amount in site.free.items()}
    ports, taken = site.host_ports, Counter[PodShape]()
    for each in sorted(told, key=lambda one: -one.shape.priority):
        if any(static_refusal(each.shape, ground) for ground in site.grounds):
            continue
        number = 0
        while number < len(each.pods) and fits(each.shape, room, ports) is None:
            take(room, each.shape, 1)
            ports += each.shape.host_ports
            number += 1
        homeless[id(each)] = each.pods[number:]
        taken[each.shape] += number
    taken = +taken
    if not taken:
        return site, taken
    free = {name: amount - node.leaving.get(name, 0) for name, amount in room.items()}
    content = site.content + tuple(taken.items())
    return replace(site, free=free, host_ports=ports, content=content, fresh=False), taken
