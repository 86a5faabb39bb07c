"""List, then watch: keeps one table true to one resource of the API server, request by request.

A reflector owns no thread and reads no clock. On the wall clock a thread calls `sync_once` over and over with a long
time-out; in the simulator a pass calls it once with a short one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from exporter.cache import OptionalTable, Table
from shared.adapters.errors import Expired, NotFound, OutsideError, Refused
from shared.adapters.protocols import ClusterApi

FIRST_DELAY_SECONDS = 0.5  # a load balancer that just switched is back by then
LONGEST_DELAY_SECONDS = 30.0  # an API server that comes back is noticed within the lease's duration
ABSENT_SECONDS = 60.0  # an API that is not served is asked for again: its definition may be installed any time

_log = logging.getLogger(__name__)


def next_delay(failures: int, retry_after: float | None = None) -> float:
    """Seconds to wait after `failures` (from 1) failed attempts in a row; never less than the server asked for."""
    doubled: float = FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 10)
    return max(min(doubled, LONGEST_DELAY_SECONDS), retry_after or 0.0)


def optional(api: ClusterApi, path: str, table: OptionalTable) -> Reflector:
    """A reflector of what can be done without."""
    return Reflector(api, path, table, lose=table.lose)


class Reflector:
    """One resource. `synced` once a first list came through; `failures` in a row feed `next_delay`, and tell that what
    is known of it grows old.

    One with `lose` that is not served, or may not be read, counts as listed: `lose` is called, and while it is so,
    `absent` says why.
    """

    def __init__(self, api: ClusterApi, path: str, table: Table, *, lose: Callable[[], bool] | None = None) -> None:
        self._api, self.path, self._table, self._lose = api, path, table, lose
        self.absent = ""
        self._version = ""
        self.synced = False
        self.failures = 0
        self.relists = 0

    @property
    def must_list(self) -> bool:
        """Whether there is nothing to watch on from."""
        return not self._version

    def sync_once(self, timeout_seconds: int) -> bool:
        """One list (at first, and after the version expired) or one watch from where the last one ended.

        Returns whether the table changed. Raises RetryLater (wait `next_delay`) and Refused (a right is missing); what
        came before the error is kept, and the next watch resumes right behind it.
        """
        try:
            changed = self._watch(timeout_seconds) if self._version else self._list()
        except (NotFound, Refused) as error:
            if self._lose is None:
                raise
            return self._without(error, self._lose)
        except Expired:
            self._version = ""
            self.relists += 1
            return False
        except OutsideError:
            self.failures += 1
            raise
        self.failures = 0
        return changed

    def _list(self) -> bool:
        items, version = self._api.list(self.path)
        changed = self._table.replace(items)
        self._version, self.synced, self.absent = version, True, ""
        return changed

    def _without(self, error: NotFound | Refused, lose: Callable[[], bool]) -> bool:
        if not self.absent and isinstance(error, Refused):
            _log.warning("%s; pods that these objects tell of cannot be planned for", error)
        self._version, self.synced, self.absent = "", True, str(error)
        return lose()

    def _watch(self, timeout_seconds: int) -> bool:
        changed = False
        for event in self._api.watch(self.path, self._version, timeout_seconds=timeout_seconds):
            self.failures = 0  # a stream that spoke is healthy, however it ends
            kind, item = event["type"], event["object"]
            if kind != "BOOKMARK":
                changed |= self._table.apply(kind, item)
            self._version = item["metadata"]["resourceVersion"]
        return changed
