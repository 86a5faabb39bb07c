"""What the functions need from the outside, made by the composition root and handed to every blueprint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from shared.adapters.protocols import BlobStore, ClusterApi, Compute, Door
from shared.model import AzureScope


@dataclass(frozen=True, slots=True)
class Services:
    """Factories rather than objects where making one is dear: a cold start pays only for what it uses.

    `clock` is for triggers (which have no orchestration context); orchestrators take time from their context and hand
    it to their activities. `account_url` is the blob endpoint that claim checks must lie below. `door` is what HTTP
    requests have to pass, None where the address (of the embedded system) or a key does; `function_keys`: the host asks
    for one.
    """

    compute: Callable[[AzureScope], Compute]
    cluster: Callable[[str], ClusterApi]
    store: Callable[[], BlobStore]
    clock: Callable[[], datetime]
    account_url: str = ""
    door: Door | None = None
    function_keys: bool = False
