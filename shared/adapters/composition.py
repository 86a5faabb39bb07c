"""From environment settings to services. Nothing is connected and no SDK imported before it is used; a setting that is
missing is told at its first use, in one line that names it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast

from shared.adapters.doors import PUBLIC_AUTHORITY, ClosedDoor, EntraDoor
from shared.adapters.errors import Rejected
from shared.adapters.protocols import BlobStore, ClusterApi, Compute, Door
from shared.model import AzureScope

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

STORAGE = "SLUICE_STORAGE_ACCOUNT_URL"
KUBECONFIG_PREFIX = "SLUICE_KUBECONFIG_"
ARM_ENDPOINT = "SLUICE_ARM_ENDPOINT"
ENTRA_APPLICATION = "SLUICE_ENTRA_APPLICATION"
ENTRA_TENANT = "SLUICE_ENTRA_TENANT"
FUNCTION_KEYS = "SLUICE_FUNCTION_KEYS"
AUTHORITY = "AZURE_AUTHORITY_HOST"  # azure-identity's own, for sovereign clouds
PUBLIC_ARM = "https://management.azure.com"
IDENTITY = "AZURE_CLIENT_ID"

T = TypeVar("T")
Made = TypeVar("Made")


def services_from_environment(environ: Mapping[str, str], make: Callable[..., T]) -> T:
    """The services of a function app in Azure, by its app settings; `make` takes them by keyword.

    Settings: SLUICE_STORAGE_ACCOUNT_URL (the blob endpoint), SLUICE_KUBECONFIG_<CLUSTER> for each cluster (its text, by
    a Key Vault reference), SLUICE_ARM_ENDPOINT for sovereign clouds, AZURE_CLIENT_ID for a user-assigned identity.
    SLUICE_ENTRA_APPLICATION and SLUICE_ENTRA_TENANT say whose tokens open the HTTP functions, SLUICE_FUNCTION_KEYS=1
    that keys do; with neither they are closed.
    """
    outside = _Outside(environ)
    return make(
        compute=outside.compute,
        cluster=outside.cluster,
        store=outside.store,
        clock=_utc_now,
        account_url=environ.get(STORAGE, ""),
        door=_door(environ),
        function_keys=_takes_keys(environ),
    )


def _takes_keys(environ: Mapping[str, str]) -> bool:
    return environ.get(FUNCTION_KEYS, "").casefold() in ("1", "true")


def _door(environ: Mapping[str, str]) -> Door | None:
    """Entra's where it is set, else the host's own keys where they are, else nobody's."""
    application, tenant = environ.get(ENTRA_APPLICATION, ""), environ.get(ENTRA_TENANT, "")
    if application and tenant:
        return EntraDoor(tenant, application, environ.get(AUTHORITY) or PUBLIC_AUTHORITY)
    return None if _takes_keys(environ) else ClosedDoor()


def kubeconfig_setting(cluster: str) -> str:
    """The name of the setting that holds a cluster's kubeconfig: app settings are letters, digits and underscores."""
    return KUBECONFIG_PREFIX + re.sub(r"[^A-Z0-9]", "_", cluster.upper())


def _utc_now() -> datetime:
    return datetime.now(UTC)


class _Outside:
    """Clients, each made once per process: making one costs more than using it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._lock = threading.Lock()
        self._made: dict[Hashable, Any] = {}

    def store(self) -> BlobStore:
        """The app's storage account."""
        from shared.adapters.blobs import make_blob_store  # noqa: PLC0415 - a cold start pays for what it uses

        url = self._setting(STORAGE, "the blob endpoint of the app's storage account")
        found: BlobStore = self._once("store", lambda: make_blob_store(url, self._credential()))
        return found

    def cluster(self, name: str) -> ClusterApi:
        """The API server of a cluster."""
        from shared.adapters.kubernetes import KubernetesClusterApi  # noqa: PLC0415 - as above

        setting = kubeconfig_setting(name)
        text, place = self._setting(setting, f"the kubeconfig of cluster {name}"), f"app setting {setting}"
        found: ClusterApi = self._once(
            ("cluster", name), lambda: KubernetesClusterApi.for_app(text, self._credential, place)
        )
        return found

    def compute(self, scope: AzureScope) -> Compute:
        """ARM for a scope."""
        from shared.adapters.azure_by_kind import make_azure  # noqa: PLC0415 - as above

        endpoint = self._environ.get(ARM_ENDPOINT) or PUBLIC_ARM
        found: Compute = self._once(scope, lambda: make_azure(scope, self._credential(), endpoint=endpoint))
        return found

    def _credential(self) -> TokenCredential:
        """A managed identity in Azure; a developer's own login elsewhere."""
        from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - as above

        identity = self._environ.get(IDENTITY) or None
        made: TokenCredential = self._once(
            "credential", lambda: DefaultAzureCredential(managed_identity_client_id=identity)
        )
        return made

    def _setting(self, name: str, what: str) -> str:
        value = self._environ.get(name, "")
        if not value:
            raise Rejected(f"app setting {name} is missing: set it to {what}")
        if value.startswith("@Microsoft.KeyVault("):
            raise Rejected(f"app setting {name} is an unresolved Key Vault reference: give the app's identity access")
        return value

    def _once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        with self._lock:
            known = self._made.get(key)
        if known is None:
            known = make()
            with self._lock:
                known = self._made.setdefault(key, known)
        return cast("Made", known)
