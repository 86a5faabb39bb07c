"""The building blocks of the pools file's grammar: each reads a value and says its JSON Schema.

One declaration serves both, so the published schema cannot drift from what is accepted. A reader never raises for what
a user wrote: it adds a `Problem` to the list and returns None, so that one pass finds everything that is wrong.
"""

from __future__ import annotations

import difflib
import math
import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from shared.model import Taint
from shared.quantity import amount

Json = dict[str, Any]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Missing:
    """The value of what is not there."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the file: where (`pools[2].max`), what stands there, and what to do."""

    path: str
    value: object
    message: str

    def __str__(self) -> str:
        shown = "" if self.value is MISSING else f" (found {_BRIEFLY.repr(self.value)})"
        return f"{self.path or 'file'}: {self.message}{shown}"


_BRIEFLY = reprlib.Repr()  # bounded, since YAML aliases make values whose full repr would never end
_BRIEFLY.maxlevel, _BRIEFLY.maxlist, _BRIEFLY.maxdict, _BRIEFLY.maxstring, _BRIEFLY.maxother = 2, 4, 4, 60, 60


class Kind(Protocol[T_co]):
    """What a value may be."""

    def read(self, value: object, path: str, problems: list[Problem]) -> T_co | None:
        """The value in the program's terms, or None after a problem was added."""
        ...

    def schema(self) -> Json:
        """The same rule as JSON Schema, as far as that can say it."""
        ...


@dataclass(frozen=True)
class Text:
    """A string of a given form."""

    pattern: str
    form: str
    longest: int = 253

    def read(self, value: object, path: str, problems: list[Problem]) -> str | None:
        """See `Kind.read`."""
        if not isinstance(value, str):
            problems.append(Problem(path, value, f"must be text, {self.form}{_quote_hint(value)}"))
            return None
        if len(value) > self.longest or not re.fullmatch(self.pattern, value):
            problems.append(Problem(path, value, f"must be {self.form}, at most {self.longest} characters"))
            return None
        return value

    def schema(self) -> Json:
        """See `Kind.schema`."""
        return {"type": "string", "pattern": f"^(?:{self.pattern})$", "maxLength": self.longest}


def _quote_hint(value: object) -> str:
    return "; put it in quotes" if isinstance(value, bool | int | float) else ""


@dataclass(frozen=True)
class Whole:
    """A whole number within bounds; true and false are none."""

    least: int
    most: int

    def read(self, value: object, path: str, problems: list[Problem]) -> int | None:
        """See `Kind.read`."""
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value <= self.most:
            problems.append(Problem(path, value, f"must be a whole number from {self.least} to {self.most}"))
            return None
        return value

    def schema(self) -> Json:
        """See `Kind.schema`."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Number:
    """A finite number within bounds."""

    least: float
    most: float = math.inf

    def read(self, value: object, path: str, problems: list[Problem]) -> float | None:
        """See `Kind.read`."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not self._within(value):
            bounds = f"from {self.least:g} to {self.most:g}" if self.most < math.inf else f"of at least {self.least:g}"
            problems.append(Problem(path, value, f"must be a number {bounds}"))
            return None
        return float(value)

    def _within(self, value: float) -> bool:
        return abs(value) <= 1e15 and self.least <= value <= self.most

    def schema(self) -> Json:
        """See `Kind.schema`."""
        upper = {"maximum": self.most} if self.most < math.inf else {}
        return {"type": "number", "minimum": self.least, **upper}


_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)(ms|s|m|h))(?:(\d+(?:\.\d+)?)(ms|s|m|h)){0,3}", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Duration:
    """A length of time with its unit, read to seconds: 90s, 10m, 1h30m."""

    least: float
    most: float

    def read(self, value: object, path: str, problems: list[Problem]) -> float | None:
        """See `Kind.read`."""
        if not isinstance(value, str) or len(value) > 40 or not _DURATION.fullmatch(value):
            problems.append(Problem(path, value, "must be a duration with a unit, such as 90s, 10m or 1h30m"))
            return None
        seconds = sum(float(count) * _SECONDS[unit] for count, unit in _DURATION_PART.findall(value))
        if not self.least <= seconds <= self.most:
            problems.append(Problem(path, value, f"must last from {self.least:g} s to {self.most:g} s"))
            return None
        return seconds

    def schema(self) -> Json:
        """See `Kind.schema`."""
        return {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h)){1,4}$", "maxLength": 40}


@dataclass(frozen=True)
class Switch:
    """true or false."""

    def read(self, value: object, path: str, problems: list[Problem]) -> bool | None:
        """See `Kind.read`."""
        if isinstance(value, bool):
            return value
        problems.append(Problem(path, value, "must be true or false"))
        return None

    def schema(self) -> Json:
        """See `Kind.schema`."""
        return {"type": "boolean"}


E_co = TypeVar("E_co", bound=StrEnum, covariant=True)


@dataclass(frozen=True)
class Choice(Generic[E_co]):
    """One of a few words."""

    options: type[E_co]

    def read(self, value: object, path: str, problems: list[Problem]) -> E_co | None:
        """See `Kind.read`."""
        if isinstance(value, str) and value in {option.value for option in self.options}:
            return self.options(value)
        words = ", ".join(self.options)
        problems.append(Problem(path, value, f"must be one of {words}{_nearest(value, list(self.options))}"))
        return None

    def schema(self) -> Json:
        """See `Kind.schema`."""
        return {"enum": [option.value for option in self.options]}


@dataclass(frozen=True)
class ListOf(Generic[T]):
    """Values of one kind; each may appear once."""

    item: Kind[T]
    most: int

    def read(self, value: object, path: str, problems: list[Problem]) -> tuple[T, ...] | None:
        """See `Kind.read`. What is wrong with one item does not hide the others."""
        if not isinstance(value, list) or len(value) > self.most:
            problems.append(Problem(path, value, f"must be a list of at most {self.most}"))
            return None
        found: list[T] = []
        for index, written in enumerate(value):
            read = self.item.read(written, f"{path}[{index}]", problems)
            if read is not None and read in found:
                problems.append(Problem(f"{path}[{index}]", written, "appears twice; remove one"))
            elif read is not None:
                found.append(read)
        return tuple(found)

    def schema(self) -> Json:
        """See `Kind.schema`."""
        return {"type": "array", "items": self.item.schema(), "maxItems": self.most}


@dataclass(frozen=True)
class Records:
    """A list of objects, read to their fields by path (`pools[2]`), so that later checks can name them."""

    record: Kind[dict[str, Any]]
    most: int

    def read(self, value: object, path: str, problems: list[Problem]) -> dict[str, dict[str, Any]] | None:
        """See `Kind.read`. What is wrong with one object does not hide the others."""
        if not isinstance(value, list) or not 1 <= len(value) <= self.most:
            problems.append(Problem(path, value, f"must be a list of 1 to {self.most}"))
            return None
        paths = [f"{path}[{index}]" for index in range(len(value))]
        found = {where: self.record.read(item, where, problems) for where, item in zip(paths, value, strict=True)}
        return {where: fields for where, fields in found.items() if fields is not None}

    def schema(self) -> Json:
        """See `Kind.schema`."""
        return {"type": "array", "items": self.record.schema(), "minItems": 1, "maxItems": self.most}


_RESOURCE_NAME = r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_LABEL_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?"
_QUANTITY = r"[0-9]*\.?[0-9]*([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?"


@dataclass(frozen=True)
class Quantities:
    """Resource names to Kubernetes quantities, read to the core's units."""

    def read(self, value: object, path: str, problems: list[Problem]) -> dict[str, int] | None:
        """See `Kind.read`."""
        if not isinstance(value, Mapping):
            problems.append(
                Problem(path, value, "must map resource names to quantities, such as {cpu: 4, memory: 16Gi}")
            )
            return None
        found = {name: self._amount(name, given, f"{path}.{name}", problems) for name, given in value.items()}
        return {name: count for name, count in found.items() if count is not None}

    def _amount(self, name: str, given: Any, path: str, problems: list[Problem]) -> int | None:  # noqa: ANN401 - as parsed
        if len(name) > 253 or not re.fullmatch(_RESOURCE_NAME, name):
            problems.append(Problem(path, given, "is no resource name"))
            return None
        try:
            count = amount(name, given)
        except ValueError:
            problems.append(Problem(path, given, "must be a quantity, such as 500m, 4 or 16Gi"))
            return None
        if count < 0:
            problems.append(Problem(path, given, "must not be negative"))
            return None
        return count

    def schema(self) -> Json:
        """See `Kind.schema`."""
        quantity = {"oneOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": f"^{_QUANTITY}$"}]}
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^(?:{_RESOURCE_NAME})$"},
            "additionalProperties": quantity,
        }


@dataclass(frozen=True)
class Labels:
    """Node labels."""

    def read(self, value: object, path: str, problems: list[Problem]) -> dict[str, str] | None:
        """See `Kind.read`."""
        if not isinstance(value, Mapping):
            problems.append(Problem(path, value, 'must map label names to values, such as {gpu: "true"}'))
            return None
        for name, given in value.items():
            where = f"{path}.{name}"
            if not _is_label_name(name):
                problems.append(
                    Problem(where, given, "is no label name ([prefix/]name, the name at most 63 characters)")
                )
            if not isinstance(given, str):
                problems.append(Problem(where, given, f"must be text{_quote_hint(given)}"))
            elif not _is_label_value(given):
                problems.append(Problem(where, given, "is no label value (at most 63 letters, digits, - _ .)"))
        return {str(name): str(given) for name, given in value.items()}

    def schema(self) -> Json:
        """See `Kind.schema`."""
        text = {"type": "string", "pattern": f"^{_LABEL_VALUE}$", "maxLength": 63}
        return {"type": "object", "propertyNames": {"pattern": f"^(?:{_RESOURCE_NAME})$"}, "additionalProperties": text}


def _is_label_name(name: str) -> bool:
    return len(name) <= 317 and len(name.rsplit("/", 1)[-1]) <= 63 and bool(re.fullmatch(_RESOURCE_NAME, name))


def _is_label_value(value: str) -> bool:
    return len(value) <= 63 and bool(re.fullmatch(_LABEL_VALUE, value))


@dataclass(frozen=True)
class TaintText:
    """A taint as kubectl writes it: key=value:Effect or key:Effect."""

    def read(self, value: object, path: str, problems: list[Problem]) -> Taint | None:
        """See `Kind.read`."""
        if isinstance(value, str):
            key_value, _, effect = value.rpartition(":")
            key, _, text = key_value.partition("=")
            if _is_label_name(key) and _is_label_value(text) and effect in EFFECTS:
                return Taint(key, text, effect)
        message = f"must be key=value:Effect or key:Effect, with the effect one of {', '.join(EFFECTS)}"
        problems.append(Problem(path, value, message))
        return None

    def schema(self) -> Json:
        """See `Kind.schema`."""
        return {"type": "string", "pattern": f"^(?:{_RESOURCE_NAME})(=(?:{_LABEL_VALUE}))?:({'|'.join(EFFECTS)})$"}


@dataclass(frozen=True)
class Field:
    """One key of an object. `default` is written as a user would write it; MISSING leaves the key out.

    `doc` states the unit, and for a default its reason.
    """

    name: str
    kind: Kind[Any]
    doc: str
    required: bool = False
    default: object = MISSING


@dataclass(frozen=True)
class Record:
    """An object of known keys; an unknown one is a problem, since it is a setting that would silently not apply."""

    fields: Sequence[Field]

    def read(self, value: object, path: str, problems: list[Problem]) -> dict[str, Any] | None:
        """See `Kind.read`. Only keys that were read well, or have a default, are in the result."""
        if not isinstance(value, Mapping):
            problems.append(Problem(path, value, f"must be a mapping with keys such as {self.fields[0].name}"))
            return None
        known = [field.name for field in self.fields]
        problems.extend(
            Problem(_join(path, name), value[name], f"unknown key{_nearest(name, known)}")
            for name in value
            if name not in known
        )
        found = {field.name: self._field(field, value, path, problems) for field in self.fields}
        return {name: read for name, read in found.items() if read is not None}

    def _field(self, field: Field, value: Mapping[str, object], path: str, problems: list[Problem]) -> object:
        written = value.get(field.name, field.default)
        if written is MISSING:
            if field.required:
                problems.append(Problem(_join(path, field.name), MISSING, "is required"))
            return None
        return field.kind.read(written, _join(path, field.name), problems)

    def schema(self) -> Json:
        """See `Kind.schema`."""
        properties = {}
        for field in self.fields:
            default = {} if field.default is MISSING else {"default": field.default}
            properties[field.name] = {"description": field.doc, **default, **field.kind.schema()}
        required = [field.name for field in self.fields if field.required]
        return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def _join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _nearest(name: object, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(name), known, n=1)
    return f"; did you mean {close[0]}?" if close else ""
