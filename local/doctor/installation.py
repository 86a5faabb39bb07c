"""What the stage `base` has made, by its outputs: as `terraform output -json` prints them, or `az deployment group show
--query properties.outputs`. Both wrap each value, and Bicep's names are in camel case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

Json = dict[str, Any]
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NEEDED = ("app_id", "app_hostname")


class NotOutputs(ValueError):
    """The text is something else; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Installation:
    """`app_url` without trailing slash; `principal` is the object id of the app's identity; `topics` are resource ids,
    by cluster; `outbound` is the app's fixed address. Empty where the outputs do not say."""

    app_id: str
    app_url: str
    principal: str = ""
    topics: Mapping[str, str] = field(default_factory=dict)
    outbound: str = ""


def read_outputs(data: bytes) -> Installation:
    """Raises NotOutputs."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise NotOutputs(f"is no JSON ({error})") from error
    if not isinstance(document, dict):
        raise NotOutputs("is no JSON object")
    outputs = {_snake(name): value.get("value") for name, value in document.items() if isinstance(value, dict)}
    missing = [name for name in _NEEDED if not isinstance(outputs.get(name), str) or not outputs[name]]
    if missing:
        raise NotOutputs(f"has no output {missing[0]}")
    return Installation(
        app_id=str(outputs["app_id"]),
        app_url=f"https://{outputs['app_hostname']}",
        principal=str(outputs.get("app_principal_id") or ""),
        topics=_topics(outputs.get("topics")),
        outbound=str(outputs.get("outbound_address") or ""),
    )


def _snake(name: str) -> str:
    return _CAMEL.sub("_", name).lower()


def _topics(value: object) -> dict[str, str]:
    """Terraform gives a map, Bicep a list of {cluster, id}."""
    if isinstance(value, dict):
        return {str(cluster): str(topic) for cluster, topic in value.items()}
    rows = value if isinstance(value, list) else []
    return {
        str(row["cluster"]): str(row["id"]) for row in rows if isinstance(row, dict) and {"cluster", "id"} <= set(row)
    }
