"""From the text of a pools file to plain values: YAML or JSON, with the traps of both closed.

A key given twice is refused: both formats keep the last one in silence, and a pool with two maxima would have one that
nobody chose. Sizes and depth are bounded, since the text may come from anybody who may write a blob.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from shared.settings.config_schema import MISSING, Problem

LONGEST = 1_000_000
DEEPEST = 20

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one is ten times faster, where it was built in


class _DoubledKey(ValueError):
    """A mapping has the same key twice, or one that is not text."""


class _Loader(_Base):  # type: ignore[misc]  # chosen at import
    """Safe YAML whose mappings refuse doubled keys and keys that are not text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Called for every mapping; merge keys (<<) may repeat what the mapping overrides."""
        seen: set[str] = set()
        for key_node, _ in node.value:
            where = f"line {key_node.start_mark.line + 1}"
            if key_node.tag not in {"tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"}:
                raise _DoubledKey(
                    f"{where}: the key {getattr(key_node, 'value', '?')!s:.40} is no text; put it in quotes"
                )
            if key_node.value in seen:
                raise _DoubledKey(f"{where}: the key {key_node.value} appears twice in one mapping; remove one")
            seen.add(key_node.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


def load_document(text: str | bytes, problems: list[Problem]) -> object:
    """The document's plain value, or None after a problem was added."""
    decoded = _decoded(text, problems)
    if decoded is None:
        return None
    try:
        document = _parsed(decoded)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        problems.append(Problem("", MISSING, f"cannot be read as YAML or JSON: {_first_lines(error)}"))
        return None
    if document is None:
        problems.append(Problem("", MISSING, "is empty; it needs at least cluster and pools"))
    return document


def _decoded(text: str | bytes, problems: list[Problem]) -> str | None:
    if len(text) > LONGEST:
        problems.append(Problem("", MISSING, f"is larger than {LONGEST} bytes"))
        return None
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        problems.append(Problem("", MISSING, f"is not UTF-8: {error.reason} at byte {error.start}"))
        return None
    return decoded


def _refuse_depth(text: str) -> None:
    """Walk the events, which needs no stack, before composing, which does: the C composer overruns it and dies."""
    depth = 0
    for event in yaml.parse(text, Loader=_Base):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise ValueError(f"nested deeper than {DEEPEST}")


def _parsed(text: str) -> object:
    """JSON by a JSON parser, since YAML 1.1 reads some JSON differently (tabs, escapes, 1e3)."""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text, object_pairs_hook=_unique)
        except json.JSONDecodeError:
            pass  # a YAML flow mapping may start the same way
    _refuse_depth(text)
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a subclass of the safe loader


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping: dict[str, object] = {}
    for key, value in pairs:
        if key in mapping:
            raise _DoubledKey(f"the key {key} appears twice in one mapping; remove one")
        mapping[key] = value
    return mapping


def _first_lines(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
