"""What the functions need from the outside, made by the composition root and handed to every blueprint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from shared.adapters.protocols import BlobStore, ClusterApi, Compute
from shared.model import AzureScope


@dataclass(frozen=True, slots=True)
class Services:
    """Factories rather than objects where making one is dear: a cold start pays only for what it uses.

    `clock` is for triggers (which have no orchestration context); orchestrators take time from their context and hand
    it to their activities. `account_url` is the blob endpoint that claim checks must lie below.
    """

    compute: Callable[[AzureScope], Compute]
    cluster: Callable[[str], ClusterApi]
    store: Callable[[], BlobStore]
    clock: Callable[[], datetime]
    account_url: str = ""
