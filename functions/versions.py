"""Orchestrators of earlier versions: an instance goes on with the code that it was begun with.

An orchestrator is replayed over what it did before, so code that would have done something else cannot go on with an
instance that an earlier release began. Each instance bears the `defaultVersion` of the host.json that it was begun
under, for good, also when it continues as new. Whoever changes what an orchestrator asks for, in which order, keeps
its former code, names it in `KEPT` with the version it was the last of, and raises `defaultVersion` (docs/day-two.md).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol


class Versioned(Protocol):
    """What is asked of an orchestration's context."""

    @property
    def version(self) -> str | None:
        """`defaultVersion` of the host.json that the instance was begun under; nothing where there was none."""
        ...


Code = Callable[[Any], Generator[Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class Kept:
    """An orchestrator as it was up to a version, that one included."""

    version: str
    code: Code


KEPT: Final[dict[str, Sequence[Kept]]] = {}
"""By orchestrator's name. An entry may go when no instance of that version is left: sagas end within days."""


def by_version(present: Code) -> Code:
    """An orchestrator that goes on with the code its instance was begun with: the oldest that is kept for the
    instance's version or a later one, else the present one."""
    older = sorted(KEPT.get(present.__name__, ()), key=lambda each: number_of(each.version))
    if not older:
        return present

    @functools.wraps(present)
    def orchestrator(context: Versioned) -> Generator[Any, Any, Any]:
        begun = number_of(context.version)
        fitting = (each.code for each in older if begun <= number_of(each.version))
        return (yield from next(fitting, present)(context))

    return orchestrator


def number_of(version: str | None) -> tuple[int, ...]:
    """For comparing: "1.10" is later than "1.9", and no version is before all others. Raises ValueError."""
    return tuple(int(part) for part in version.split(".")) if version else ()
