"""What a durable client binding hands to a function, and a way for the SDK's client to reach the host without HTTP."""

from __future__ import annotations

from typing import Any

import orjson

from local.web import Handler, Request, Response

IN_PROCESS_URL = "http://durable.invalid"


def binding_json(base_url: str, hub: str = "SluiceHub") -> str:
    """The JSON text from which the SDK builds a DurableOrchestrationClient; `base_url` has no trailing slash."""
    instance = f"{base_url}/durabletask/instances/INSTANCEID"
    create = f"{base_url}/durabletask/orchestrators/{{functionName}}[/{{instanceId}}]"
    return orjson.dumps(
        {
            "taskHubName": hub,
            "creationUrls": {"createNewInstancePostUri": create, "createAndWaitOnNewInstancePostUri": create},
            "managementUrls": {
                "id": "INSTANCEID",
                "statusQueryGetUri": instance,
                "sendEventPostUri": f"{instance}/raiseEvent/{{eventName}}",
                "terminatePostUri": f"{instance}/terminate?reason={{text}}",
                "rewindPostUri": f"{instance}/rewind?reason={{text}}",
                "purgeHistoryDeleteUri": instance,
                "restartPostUri": f"{instance}/restart",
                "suspendPostUri": f"{instance}/suspend?reason={{text}}",
                "resumePostUri": f"{instance}/resume?reason={{text}}",
            },
            "baseUrl": f"{base_url}/durabletask",
            "requiredQueryStringParameters": "",
            "rpcBaseUrl": f"{base_url}/durabletask/",
        }
    ).decode()


class _Answer:
    """An aiohttp response, as far as the SDK uses one."""

    def __init__(self, response: Response) -> None:
        self.status, self._body = response.status, response.body

    async def json(self, **_: object) -> Any:  # noqa: ANN401 - JSON
        return orjson.loads(self._body) if self._body else None

    async def __aenter__(self) -> _Answer:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class InProcessSession:
    """Stands in for the SDK's aiohttp session: a call is a function call, and nothing waits."""

    closed = False

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def post(self, url: str, *, json: object = None, headers: dict[str, str] | None = None) -> _Answer:
        """POST; like aiohttp, no body for None."""
        body = b"" if json is None else orjson.dumps(json)
        return _Answer(self._handler.handle(Request.of("POST", url, headers, body)))

    def get(self, url: str, *, headers: dict[str, str] | None = None) -> _Answer:
        """GET."""
        return _Answer(self._handler.handle(Request.of("GET", url, headers)))

    def delete(self, url: str, *, headers: dict[str, str] | None = None) -> _Answer:
        """DELETE."""
        return _Answer(self._handler.handle(Request.of("DELETE", url, headers)))

    async def close(self) -> None:
        """Nothing to close."""
