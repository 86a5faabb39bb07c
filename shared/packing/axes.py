"""Shapes and rooms as rows of one matrix, so that "does it fit" is a comparison of numbers.

Each resource is an axis, `pods` among them. Volumes that a driver attaches are one where any room limits them, and then
without end in the other rooms. A host port is an axis with one place, and one more for each address that
somebody names: a pod on 0.0.0.0 takes all of them, which is just how ports collide. A port that only one shape uses,
and no room has taken, needs no axis: that shape goes once to a node.

Numbers are floats that hold whole numbers: exact below 2**53, hence capped there. Nothing real comes near (8 PiB of
memory); a demand above the cap fits nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from shared.model import HostPort, PodShape
from shared.rules.predicates import ANY_ADDRESS, ATTACHABLE, PODS, port_key, ports_collide

Matrix = npt.NDArray[np.float64]
Room = tuple[Mapping[str, int], Sequence[HostPort]]  # free resources, and the host ports taken

UNBOUNDED = 2**40
"""How many pods of a class a node takes where nothing but room counts."""

MOST_ROOM = 2**52
"""Amounts up to here are told apart exactly by floats; a pod that asks for more fits nowhere."""

_TOO_MUCH = float(2**53)
_NOWHERE = ""  # the axis of every resource that no room offers: it has no place on any node


class Axes:
    """The axes on which these shapes and these rooms can be compared; only those that a shape uses."""

    def __init__(self, shapes: Sequence[PodShape], rooms: Sequence[Room]) -> None:
        on_offer = {name for free, _ in rooms for name, amount in free.items() if amount > 0}
        asked = {name for shape in shapes for name, _ in shape.requests}
        limited = {name for name in asked if name.startswith(ATTACHABLE) and any(name in free for free, _ in rooms)}
        on_offer |= limited
        wanted = {name for name in asked if name in limited or not name.startswith(ATTACHABLE)}
        self._resources = [PODS, *sorted(wanted & on_offer - {PODS})]
        if not wanted <= on_offer:
            self._resources.append(_NOWHERE)
        self._place = {name: place for place, name in enumerate(self._resources)}
        self._ports = _port_axes(shapes, {port_key(port) for _, taken in rooms for port in taken})
        self._port_place = {port: len(self._resources) + place for place, port in enumerate(self._ports)}
        self._by_number: dict[tuple[str, int], list[HostPort]] = {}
        for port in self._ports:
            self._by_number.setdefault(port_key(port), []).append(port)
        self._width = len(self._resources) + len(self._ports)

    def needs(self, shapes: Sequence[PodShape]) -> Matrix:
        """What one pod of each shape takes: a row for each."""
        matrix = np.zeros((len(shapes), self._width))
        for row, shape in enumerate(shapes):
            self._need(matrix[row], shape)
        return matrix

    def rooms(self, rooms: Sequence[Room]) -> Matrix:
        """What each room still has: a row for each."""
        asked = [(name, MOST_ROOM if name.startswith(ATTACHABLE) else 0) for name in self._resources]
        table = [[float(min(max(free.get(name, least), 0), MOST_ROOM)) for name, least in asked] for free, _ in rooms]
        matrix = np.ones((len(rooms), self._width))
        if table:
            matrix[:, : len(self._resources)] = table
        if self._ports:
            for row, (_, taken) in enumerate(rooms):
                self._block(matrix[row], taken)
        return matrix

    def most(self, shapes: Sequence[PodShape]) -> npt.NDArray[np.int64]:
        """How many pods of each shape one node can have, if room were no question."""
        return np.array([1 if shape.host_ports else UNBOUNDED for shape in shapes], dtype=np.int64)

    def _need(self, row: Matrix, shape: PodShape) -> None:
        row[0] = 1.0
        for name, amount in shape.requests:
            if name == PODS:
                continue
            place = self._place.get(name, len(self._resources) - 1)
            if name.startswith(ATTACHABLE) and name not in self._place:
                continue  # no room limits it
            row[place] = float(max(0, amount)) if amount <= MOST_ROOM else _TOO_MUCH
        for port in shape.host_ports:
            for axis in self._axes_of(port):
                row[axis] = 1.0

    def _axes_of(self, port: HostPort) -> list[int]:
        protocol, number = port_key(port)
        if (port.ip or ANY_ADDRESS) != ANY_ADDRESS:
            place = self._port_place.get(HostPort(port.ip, protocol, number))
            return [] if place is None else [place]
        return [self._port_place[known] for known in self._by_number.get((protocol, number), ())]

    def _block(self, row: Matrix, taken: Sequence[HostPort]) -> None:
        for other in taken:
            for port in self._by_number.get(port_key(other), ()):
                if ports_collide(port, other):
                    row[self._port_place[port]] = 0.0


def _port_axes(shapes: Sequence[PodShape], taken: Collection[tuple[str, int]]) -> list[HostPort]:
    """For each port that two shapes or a shape and a room use: an axis for every address, and one for each named."""
    users: dict[tuple[str, int], set[int]] = {}
    addresses: dict[tuple[str, int], set[str]] = {}
    for number, shape in enumerate(shapes):
        for port in shape.host_ports:
            users.setdefault(port_key(port), set()).add(number)
            addresses.setdefault(port_key(port), {ANY_ADDRESS}).add(port.ip or ANY_ADDRESS)
    return [
        HostPort(address, *key)
        for key in sorted(users)
        if len(users[key]) > 1 or key in taken
        for address in sorted(addresses[key])
    ]
