"""Whether an API server can be reached as things are, and if not, what stands in the way and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.adapters.app_access import NO_TOKEN
from shared.adapters.errors import OutsideError, Refused, Rejected
from shared.adapters.kubernetes import NO_NAME, NO_PORT, SILENT, UNTRUSTED
from shared.adapters.protocols import ClusterApi
from shared.names import API_DISCOVERY

REFUSED = "refused"
UNUSABLE = "unusable"
TROUBLE = "trouble"

REMEDIES: Mapping[str, str] = {
    UNTRUSTED: "take certificate-authority-data anew from the cluster, and see that the address is the cluster's own",
    NO_NAME: "give the app a subnet in the cluster's network, and link the private DNS zone of the API server to it",
    NO_PORT: "see that the API server runs, and that the address and its port are right",
    SILENT: "put the app's fixed address (output outbound_address) into the authorised ranges, and let the network "
    "security groups pass it",
    NO_TOKEN: "give the app the managed identity that AZURE_CLIENT_ID names",
    REFUSED: "make the app known to the cluster: on AKS enable Entra, elsewhere put a fresh service account's token "
    "into the Key Vault; then install the chart with functions.entraObjectId or functions.serviceAccount",
    UNUSABLE: "put right what the message names, in the Key Vault's secret or the app setting",
    TROUBLE: "try again; if it stays so, look at the API server's own health",
}


@dataclass(frozen=True, slots=True)
class Reach:
    """What came of one question to an API server. `obstacle` is a key of REMEDIES, "" when it answered."""

    obstacle: str = ""
    reason: str = ""

    @property
    def remedy(self) -> str:
        """What to do about it; "" when nothing is."""
        return REMEDIES.get(self.obstacle, "")


def reach(api: ClusterApi) -> Reach:
    """Ask the server something that every identity it knows may ask. Raises nothing of the outside's."""
    try:
        api.get(API_DISCOVERY)
    except OutsideError as error:
        return Reach(_obstacle(error), error.message)
    return Reach()


def _obstacle(error: OutsideError) -> str:
    if error.code in REMEDIES:
        return error.code
    if isinstance(error, Refused):
        return REFUSED
    return UNUSABLE if isinstance(error, Rejected) else TROUBLE
