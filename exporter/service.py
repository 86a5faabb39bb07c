"""The exporter without threads, clocks or sockets: watches in, events out, whoever drives it.

On the wall clock `exporter.main` runs a thread per watch and calls `tick` when something changed or is due; in a
simulation `poll` makes one short pass over the watches instead. All calls but the reflectors' come from one thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from exporter.cache import ClusterCache
from exporter.detectors import Cadence
from exporter.envelope import Envelopes
from exporter.health import Health
from exporter.lease import LeaderLease, LeaseTerms
from exporter.observer import Observer
from exporter.publisher import Notice, Outbox
from exporter.reflector import ABSENT_SECONDS, LONGEST_DELAY_SECONDS, Reflector, next_delay, optional
from shared.adapters.errors import OutsideError, RetryLater
from shared.adapters.protocols import BlobStore, ClusterApi, EventPublisher, Json
from shared.model import Config

POLL_SECONDS = 1  # the shortest time-out that an API server takes for one; 0 would mean its default of half an hour

_log = logging.getLogger(__name__)


class ExporterService:
    """`config_source` gives the pools file in force: asked at every tick, so it must be cheap, and it returns the same
    object while nothing changed. `identity` names this process among those that want the Lease.
    `account_url` is the blob endpoint that claim checks name, as the functions are told it."""

    def __init__(  # noqa: PLR0913 - one for each neighbour, by keyword where they could be confused
        self,
        api: ClusterApi,
        publisher: EventPublisher,
        store: BlobStore | None,
        config_source: Callable[[], Config],
        clock: Callable[[], datetime],
        *,
        identity: str,
        account_url: str = "",
        terms: LeaseTerms | None = None,
        cadence: Cadence | None = None,
    ) -> None:
        self._config_source, self._clock = config_source, clock
        self._config = config_source()
        self.cache = ClusterCache()
        self.reflectors = (
            *(Reflector(api, path, table) for path, table in self.cache.tables().items()),
            *(optional(api, path, table) for path, table in self.cache.optional_tables().items()),
        )
        self._not_before: dict[str, datetime] = {}
        self._observer = Observer(self.cache, self._config, cadence or Cadence())
        self._lease = LeaderLease(api, identity, terms or LeaseTerms())
        self._envelopes = Envelopes(store, account_url)
        self._outbox = Outbox(publisher, self._build)
        self._silent: dict[str, datetime] = {}  # since when a kind could not be asked for
        self._epoch = self._sequence = 0
        self._next: datetime | None = None

    @property
    def synced(self) -> bool:
        """Whether every kind has been listed once; nothing is announced before."""
        return all(reflector.synced for reflector in self.reflectors)

    @property
    def leads(self) -> bool:
        """Whether this process publishes."""
        return self._lease.epoch > 0

    def poll(self, paths: Collection[str] | None = None) -> bool:
        """One short pass over the watches (a list where one is due); returns whether anything changed.

        Whoever knows where something changed names these `paths`, and only they are watched. Never raises for what the
        API server answers: a resource that failed is left alone until its delay is over.
        """
        now = self._clock()
        asked = self.reflectors
        if paths is not None:
            due = {*paths, *self._not_before}
            asked = tuple(each for each in asked if each.must_list or each.path in due)
        changed = [self._poll(reflector, now) for reflector in asked]
        return any(changed)

    def tick(self, now: datetime) -> datetime | None:
        """Do what is due: renew the Lease, look at what changed, announce, send. Returns when to call again if nothing
        changes before. Costs next to nothing while nothing is due."""
        self._note_silence(now)
        config = self._config_source()
        unchanged = config is self._config and not self.cache.dirty
        if unchanged and self._next is not None and now < self._next:
            return self._next
        self._config = config
        self._keep_lease(now)
        if self.synced:
            self._observer.look(config, now)
            if self.leads:
                for notice in self._observer.notices(now):
                    self._outbox.offer(notice, now)
                self._outbox.flush(now)
        self._next = self._next_due(now)
        return self._next

    def drained(self, now: datetime) -> bool:
        """Before a stop: send what waits, at once; returns whether nothing waits any more."""
        if self.leads:
            self._outbox.flush(now, force=True)
        return self._outbox.empty or not self.leads

    def stop(self, now: datetime) -> None:
        """Let another process lead at once."""
        self._lease.release(now)

    def health(self, now: datetime) -> Health:
        """For the health endpoint; callable from any thread."""
        counters = self._outbox.counters
        figures = {
            "sluice_exporter_leader": float(self.leads),
            "sluice_exporter_epoch": float(self._lease.epoch),
            "sluice_exporter_lag_seconds": self._outbox.lag(now),
            "sluice_exporter_superseded_total": float(counters.superseded),
            "sluice_exporter_rejected_total": float(counters.rejected),
            "sluice_exporter_publish_failures_total": float(counters.failures),
            "sluice_exporter_relists_total": float(sum(reflector.relists for reflector in self.reflectors)),
            "sluice_exporter_unschedulable_pods": float(self._observer.view.unschedulable()),
        }
        for kind, count in list(counters.published.items()):
            figures[f'sluice_exporter_published_total{{type="{kind}"}}'] = float(count)
        problem = self._lease.problem or self._outbox.problem
        return Health(alive=True, ready=self.synced, problem=problem, figures=figures)

    def _poll(self, reflector: Reflector, now: datetime) -> bool:
        if now < self._not_before.get(reflector.path, now):
            return False
        self._not_before.pop(reflector.path, None)
        try:
            changed = reflector.sync_once(POLL_SECONDS)
            if not reflector.absent:
                return changed
            delay = ABSENT_SECONDS
        except RetryLater as error:
            delay = next_delay(reflector.failures, error.retry_after)
        except OutsideError as error:
            _log.error("%s", error)
            delay = LONGEST_DELAY_SECONDS
        self._not_before[reflector.path] = now + timedelta(seconds=delay)
        self._next = None  # the next tick says when to poll again
        return False

    def _note_silence(self, now: datetime) -> None:
        silent = {reflector.path for reflector in self.reflectors if reflector.failures}
        self._silent = {path: self._silent.get(path, now) for path in silent}

    def _keep_lease(self, now: datetime) -> None:
        self._lease.keep(now)
        if self._lease.epoch == self._epoch:
            return
        self._epoch, self._sequence = self._lease.epoch, 0
        self._outbox.clear()  # numbered under an epoch that is over
        if self.leads:
            self._observer.forget(now)

    def _next_due(self, now: datetime) -> datetime | None:
        moments: list[datetime | None] = [self._lease.next_due(), *self._not_before.values()]
        if self.leads and self.synced:
            moments += [self._observer.next_due(now), self._outbox.next_due()]
        return min(moment for moment in moments if moment is not None)

    def _build(self, notice: Notice, now: datetime) -> Json:
        self._sequence += 1
        view = self._observer.view
        as_of = min((now, *self._silent.values()))
        snapshot = view.snapshot(self._config.cluster, self._epoch, self._sequence, as_of)
        nodes = [node for name in notice.nodes if (node := view.node(name)) is not None]
        return self._envelopes.event(notice.kind, snapshot, nodes)
