"""What a cluster says to the person who runs the doctor, by their own kubeconfig."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from urllib3.exceptions import HTTPError

from shared.adapters.errors import Unreachable
from shared.adapters.kubernetes import KubernetesClusterApi
from shared.adapters.kubernetes_access import client_from_kubeconfig

Json = dict[str, Any]
_SECONDS = (5.0, 20.0)


@dataclass(frozen=True, slots=True)
class Said:
    """The API server's version, its address, and the Date of its answer."""

    version: str
    server: str
    date: str | None


class OperatorsCluster:
    """Raises `shared.adapters.errors`, Rejected for a kubeconfig that is none."""

    def __init__(self, kubeconfig: str, context: str = "") -> None:
        self._client = client_from_kubeconfig(kubeconfig, context or None)
        self._api = KubernetesClusterApi(self._client)

    def version(self) -> Said:
        """GET /version, with the clock of who answers."""
        host = self._client.configuration.host
        headers: dict[str, str] = {"Accept": "application/json"}
        self._client.update_params_for_auth(headers, None, ["BearerToken"], "/version", "GET", None)
        try:
            answer = self._client.call_api("GET", f"{host}/version", headers, _request_timeout=_SECONDS)
            body = orjson.loads(answer.response.data)
        except (HTTPError, OSError, orjson.JSONDecodeError) as error:
            raise Unreachable(f"get /version: no answer from {host}: {' '.join(str(error).split())}") from error
        if not isinstance(body, dict) or "gitVersion" not in body:
            self._api.get("/api/v1/namespaces/kube-system")  # which says more clearly what is wrong
            raise Unreachable(f"get /version: what answers at {host} is no API server")
        return Said(str(body["gitVersion"]), host, answer.headers.get("date"))

    def items(self, path: str, *, field: str = "", label: str = "") -> list[Json]:
        """All items of a list."""
        return self._api.list(path, field_selector=field, label_selector=label)[0]
