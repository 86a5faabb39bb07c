"""Strict field validation, as kubectl asks for it: unknown fields and wrong types, by the official client's models.

The models are generated from the API server's own OpenAPI document, so they know each field of each kind served here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from kubernetes.client import models

from local.kube.kinds import EVENT, Json, Kind
from local.kube.problems import ApiProblem, bad_request

_QUANTITIES = frozenset({"limits", "requests", "capacity", "allocatable", "overhead", "hard"})  # numbers are welcome
_GENERIC = re.compile(r"^(List|Dict)\[(?:str, )?(.+)\]$")
_SCALARS: Mapping[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "bool": (bool,), "float": (int, float)}
_WORDS = {str: "string", int: "number", float: "number", bool: "bool", list: "array", dict: "object"}


def check(kind: Kind, body: Json) -> None:
    """Raise the API server's 400 for a field that the kind does not have, or that is of another type."""
    model = "CoreV1Event" if kind is EVENT else f"V1{kind.kind}"
    unknown: list[str] = []
    for path, expected, value in _differences(model, body, ""):
        if expected:
            raise _mismatch(kind, path, expected, value)
        unknown.append(path)
    if unknown:
        listed = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise _unreadable(kind, f"strict decoding error: {listed}")


def _mismatch(kind: Kind, path: str, expected: str, value: object) -> ApiProblem:
    word = _WORDS.get(type(value), "value")
    return _unreadable(kind, f"json: cannot unmarshal {word} into Go struct field .{path} of type {expected}")


def _unreadable(kind: Kind, why: str) -> ApiProblem:
    return bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')


@lru_cache(maxsize=512)
def _fields(model: str) -> Mapping[str, str] | None:
    """JSON name to type; None for what has no model, such as a quantity or an arbitrary object."""
    found = getattr(models, model, None)
    types = getattr(found, "openapi_types", None)
    if found is None or types is None:
        return None
    return {json_name: types[name] for name, json_name in found.attribute_map.items()}


def _differences(type_: str, value: Any, path: str) -> Iterator[tuple[str, str, Any]]:  # noqa: ANN401 - any JSON
    """Path, the type that was expected ("" for an unknown field), and what is there instead."""
    if value is None:
        return
    if generic := _GENERIC.match(type_):
        yield from _in_collection(generic[1], generic[2], value, path)
    elif type_ in _SCALARS:
        if not isinstance(value, _SCALARS[type_]) or (type_ == "int" and isinstance(value, bool)):
            yield path, type_, value
    elif (fields := _fields(type_)) is not None:
        if not isinstance(value, dict):
            yield path, type_.removeprefix("V1"), value
            return
        for name, inner in value.items():
            where = f"{path}.{name}" if path else name
            if name not in fields:
                yield where, "", inner
            elif name not in _QUANTITIES:
                yield from _differences(fields[name], inner, where)


def _in_collection(outer: str, inner: str, value: Any, path: str) -> Iterator[tuple[str, str, Any]]:  # noqa: ANN401
    if outer == "List" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _differences(inner, item, f"{path}[{index}]")
    elif outer == "Dict" and isinstance(value, dict):
        for name, item in value.items():
            yield from _differences(inner, item, f"{path}.{name}")
    else:
        yield path, "array" if outer == "List" else "map", value
