"""Reading JSON that anybody may have written: every step checks, and names path and value when it refuses."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T")

LONGEST_TEXT = 100_000
MOST_KEYS = 10_000
LARGEST_AMOUNT = 2**63 - 1

_BRIEFLY = reprlib.Repr()
_BRIEFLY.maxlevel, _BRIEFLY.maxlist, _BRIEFLY.maxdict, _BRIEFLY.maxstring, _BRIEFLY.maxother = 2, 4, 4, 60, 60


class Node:
    """A value and where it stands. Every method raises ValueError naming both where the value is not as asked for."""

    __slots__ = ("_above", "_step", "value")

    def __init__(self, value: object, above: Node | str, step: str | int | None = None) -> None:
        """A root stands at a path; another one at a `step` (a name or an index) below the one above."""
        self.value, self._above, self._step = value, above, step

    @property
    def path(self) -> str:
        """Put together when somebody asks: only refusals do."""
        above = self._above if isinstance(self._above, str) else self._above.path
        match self._step:
            case None:
                return above
            case int(index):
                return f"{above}[{index}]"
            case name:
                return f"{above}.{name}"

    def wrong(self, wanted: str) -> ValueError:
        """The refusal, to be raised by the caller."""
        return ValueError(f"{self.path}: must be {wanted}, found {_BRIEFLY.repr(self.value)}")

    def record(self, *names: str, optional: Sequence[str] = ()) -> dict[str, Node]:
        """Exactly these keys of a mapping, and those of the optional ones that are there."""
        mapping = self._mapping()
        for name in names:
            if name not in mapping:
                raise ValueError(f"{self.path}.{name}: is missing")
        for name in mapping:
            if name not in names and name not in optional:
                raise ValueError(f"{self.path}.{name:.60}: is not known")
        there = [*names, *(name for name in optional if name in mapping)]
        return {name: Node(mapping[name], self, name) for name in there}

    def mapping(self) -> Node:
        """The node itself, once it is sure to be a mapping."""
        self._mapping()
        return self

    def items(self, most: int) -> list[Node]:
        """The items of a list of at most that many."""
        return [Node(item, self, index) for index, item in enumerate(self._list(most))]

    def fields(self, count: int, most: int | None = None) -> list[Node]:
        """The items of a list of exactly that many; with `most`, of that many to `most`."""
        found = self.items(most or count)
        if len(found) < count:
            raise self.wrong(f"a list of {count} to {most}" if most else f"a list of {count}")
        return found

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str) or len(self.value) > LONGEST_TEXT:
            raise self.wrong("a text")
        return self.value

    def text_list(self, most: int) -> list[str]:
        """A list of strings."""
        items = self._list(most)
        for index, item in enumerate(items):
            if not isinstance(item, str) or len(item) > LONGEST_TEXT:
                raise Node(item, self, index).wrong("a text")
        return items  # type: ignore[return-value]  # each item was just looked at

    def text_fields(self, count: int) -> list[str]:
        """A list of exactly that many strings."""
        return [item.text() for item in self.fields(count)]

    def texts(self) -> dict[str, str]:
        """A mapping to strings."""
        return {name: Node(value, self, name).text() for name, value in self._mapping().items()}

    def amounts(self) -> dict[str, int]:
        """A mapping to amounts, none negative."""
        found = self._mapping().items()
        return {name: Node(value, self, name).whole(0, LARGEST_AMOUNT) for name, value in found}

    def whole(self, least: int, most: int) -> int:
        """A whole number; true and false are none."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not least <= self.value <= most:
            raise self.wrong(f"a whole number from {least} to {most}")
        return self.value

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def time(self) -> datetime:
        """An RFC 3339 time with its zone, read to UTC."""
        try:
            moment = datetime.fromisoformat(self.text())
            if moment.tzinfo is not None:
                return moment.astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise self.wrong("a time such as 2026-01-31T12:00:00Z") from error
        raise self.wrong("a time with its zone, such as 2026-01-31T12:00:00Z")

    def choice(self, options: Sequence[T]) -> T:
        """The option at this index."""
        return options[self.whole(0, len(options) - 1)]

    def _mapping(self) -> Mapping[str, object]:
        if not isinstance(self.value, dict) or len(self.value) > MOST_KEYS:
            raise self.wrong("a mapping")
        return self.value

    def _list(self, most: int) -> list[object]:
        if not isinstance(self.value, list) or len(self.value) > most:
            raise self.wrong(f"a list of at most {most}")
        return self.value
