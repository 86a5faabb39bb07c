"""One operation on an entity, through the SDK's own handler."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from local.durable import history


class EntityFailure(Exception):
    """The entity is not in the app, or the SDK itself failed; the state stays as it was. `answer` is for the caller."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.answer = {"result": json.dumps(message), "exceptionType": "Error"}


def operate(
    entities: Mapping[str, Callable[[str], str]], identity: str, state: str | None, request: dict[str, Any]
) -> tuple[dict[str, str], str | None]:
    """The answer to the caller, and the new state as JSON text (None: the entity is not there).

    An operation that raises is an answer with "exceptionType", and what it changed before stays changed, as in Azure.
    Raises EntityFailure.
    """
    _, name, key = identity.split("@", 2)
    text = request["input"]
    operation = {
        "name": request["op"],
        "input": None if text is None else history.dumps(text),
        "isSignal": request["signal"],
    }
    batch = {"self": {"name": name, "key": key}, "exists": state is not None, "state": state, "batch": [operation]}
    if name not in entities:
        raise EntityFailure(f"{request['op']}: this app has no entity {name!r}")
    try:
        out = orjson.loads(entities[name](history.dumps(batch)))
    except Exception as error:
        raise EntityFailure(f"{request['op']}: {type(error).__name__}: {error}") from error
    result = out["results"][0]
    answer = {"result": result["result"]}
    if result["isError"]:
        answer["exceptionType"] = "Error"
    return answer, out["entityState"] if out["entityExists"] else None
