"""Versions of orchestrations, as the Durable extension has them: `defaultVersion` of host.json, and its order."""

from __future__ import annotations

import re
from pathlib import Path

import orjson

ROOT = Path(__file__).resolve().parents[2]
_NUMBERS = re.compile(r"\d+(\.\d+){1,3}")  # what System.Version parses


def of_tree(tree: Path = ROOT) -> str:
    """The version that an app begins its orchestrations under; "" when its host.json names none."""
    settings = orjson.loads((tree / "host.json").read_bytes())
    return str(settings["extensions"]["durableTask"].get("defaultVersion", ""))


def is_later(one: str, other: str) -> bool:
    """No version is before all others; numbers with dots go by their parts, all else by the alphabet."""
    if _NUMBERS.fullmatch(one) and _NUMBERS.fullmatch(other):
        return [int(part) for part in one.split(".")] > [int(part) for part in other.split(".")]
    return one.casefold() > other.casefold()
