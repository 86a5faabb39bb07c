"""Tokens of Azure's long-running operations: small enough for histories, and all that polling needs."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import orjson


def pack(kind: str, payload: object, first_wait: float | None = None) -> str:
    """A token that names its kind, so that polling needs nothing else; compressed, since status URLs are long.

    `first_wait`: seconds before which Azure does not want to be asked for the first time.
    """
    content = [kind, payload, first_wait] if first_wait else [kind, payload]
    return base64.urlsafe_b64encode(zlib.compress(orjson.dumps(content), 9)).decode()


def unpack(token: str) -> tuple[str, Any]:
    """(kind, payload). Raises ValueError for anything that `pack` did not make."""
    kind, payload, *_ = _content(token)
    return str(kind), payload


def first_wait(token: str) -> float:
    """Seconds before which Azure does not want to be asked for the first time; 0 where it did not say."""
    try:
        _, _, *wait = _content(token)
    except ValueError:
        return 0.0
    return float(wait[0]) if wait else 0.0


def _content(token: str) -> list[Any]:
    try:
        content = orjson.loads(zlib.decompress(base64.urlsafe_b64decode(token)))
    except (ValueError, zlib.error) as error:
        raise ValueError(f"operation token: {token[:40]!r} is not one of ours") from error
    if not isinstance(content, list) or len(content) < 2:
        raise ValueError(f"operation token: {token[:40]!r} is not one of ours")
    return content
