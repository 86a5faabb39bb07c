"""The bulky fields of a document squeezed into one, once they have grown large, and back.

What an orchestration or an entity carries has 32 kB: a bad hour (hundreds of nodes reclaimed at once, hundreds asked
for) comes close, and consists of names that resemble each other. The fields that everybody reads stay as they are.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection
from typing import Any

import orjson

Json = dict[str, Any]

PACKED = "packed"
LARGE = 12_000  # bytes of JSON; smaller documents stay legible


def pack(document: Json, bulky: Collection[str]) -> Json:
    """The document, its `bulky` fields in one if it is large; the same document always gives the same."""
    if len(orjson.dumps(document)) <= LARGE:
        return document
    rest = {name: value for name, value in document.items() if name not in bulky}
    squeezed = zlib.compress(orjson.dumps({name: document[name] for name in bulky if name in document}), 6)
    return {**rest, PACKED: base64.b85encode(squeezed).decode()}


def unpack(document: Json) -> Json:
    """What was packed; a document that was not is returned as it is."""
    if PACKED not in document:
        return document
    bulky: Json = orjson.loads(zlib.decompress(base64.b85decode(document[PACKED])))
    return {**{name: value for name, value in document.items() if name != PACKED}, **bulky}
