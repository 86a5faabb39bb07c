"""Who publishes: one holder of a coordination.k8s.io Lease, and the epoch that orders its events.

The epoch is the Lease's `leaseTransitions`: every acquisition raises it, also one by a process that held it in a former
life, so that two processes never number events under the same epoch. A Lease that somebody deleted is made anew with
minutes since 1970 as its first epoch: above everything that one take-over a minute could have counted to.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shared.adapters.errors import NotFound, OutsideError, StaleWrite
from shared.adapters.protocols import ClusterApi, Json

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """Seconds. `duration`: how long a silent holder is waited for, hence the longest gap after a crash. `renew_every`:
    a third of it, so that two renewals may fail. `retry_every`: how often a waiting one looks."""

    namespace: str = "kube-system"
    name: str = "sluice-exporter"
    duration: float = 30.0
    renew_every: float = 10.0
    retry_every: float = 5.0


def lease_path(terms: LeaseTerms) -> str:
    """Where the Lease lies on the API server."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{terms.namespace}/leases/{terms.name}"


class LeaderLease:
    """The Lease as this process sees it. Time comes from the caller; only differences of its own clock are used,
    never another holder's time stamps, so that clocks that disagree do no harm."""

    def __init__(self, api: ClusterApi, identity: str, terms: LeaseTerms) -> None:
        self._api, self._identity, self._terms = api, identity, terms
        self._path = lease_path(terms)
        self._collection = self._path.rpartition("/")[0]
        self._held: Json | None = None
        self._renewed = self._seen_at = self._next = datetime(1, 1, 1, tzinfo=UTC)
        self._seen: tuple[object, ...] = ()
        self.problem = ""

    @property
    def epoch(self) -> int:
        """The epoch of this tenure; 0 while somebody else holds the Lease."""
        return int(self._held["spec"]["leaseTransitions"]) if self._held else 0

    def next_due(self) -> datetime:
        """When `keep` wants to be called."""
        return self._next

    def keep(self, now: datetime) -> bool:
        """Renew, or try to acquire, when it is time; returns whether we hold it at `now`.

        Never raises for what the API server says: a holder that cannot renew stops holding after `duration`, and
        `problem` says why in one line.
        """
        if now >= self._next:
            try:
                self._renew(now) if self._held else self._try_acquire(now)
                self.problem = ""
            except StaleWrite:
                self._held = None  # somebody wrote in between: look again soon, and see who
                self._next = now + timedelta(seconds=1)
            except OutsideError as error:
                self._failed(now, error)
        return self._held is not None

    def release(self, now: datetime) -> None:
        """Let another one take over at once. A failure is only logged: the Lease then runs out by itself."""
        if self._held is None:
            return
        held, self._held = self._held, None
        try:
            self._api.replace(self._path, self._written(held, now, holder=""))
        except OutsideError as error:
            _log.warning("the lease was not released and runs out by itself: %s", error)

    def _failed(self, now: datetime, error: OutsideError) -> None:
        if str(error) != self.problem:
            _log.warning("lease %s: %s", self._path, error)
        self.problem = str(error)
        self._next = now + timedelta(seconds=self._terms.retry_every)
        if self._held and now - self._renewed >= timedelta(seconds=self._terms.duration):
            self._held = None

    def _renew(self, now: datetime) -> None:
        assert self._held is not None  # noqa: S101 - for the type checker; `keep` asked
        self._took(self._api.replace(self._path, self._written(self._held, now, holder=self._identity)), now)

    def _try_acquire(self, now: datetime) -> None:
        try:
            lease = self._api.get(self._path)
        except NotFound:
            self._took(self._api.create(self._collection, self._fresh(now)), now)
            return
        if self._may_take(lease, now):
            self._took(self._api.replace(self._path, self._taken_over(lease, now)), now)
        else:
            self._next = now + timedelta(seconds=self._terms.retry_every)

    def _may_take(self, lease: Json, now: datetime) -> bool:
        spec = lease.get("spec", {})
        seen = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        if spec.get("holderIdentity") in (None, "", self._identity):
            return True
        duration = spec.get("leaseDurationSeconds") or self._terms.duration
        return now - self._seen_at >= timedelta(seconds=duration)

    def _took(self, lease: Json, now: datetime) -> None:
        if self._held is None:
            _log.info("holding %s as %s, epoch %s", self._path, self._identity, lease["spec"]["leaseTransitions"])
        self._held, self._renewed = lease, now
        self._next = now + timedelta(seconds=self._terms.renew_every)

    def _fresh(self, now: datetime) -> Json:
        metadata = {"name": self._terms.name, "namespace": self._terms.namespace}
        spec = {"leaseTransitions": int(now.timestamp() // 60), "acquireTime": _micro_time(now)}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        return self._written(lease, now, holder=self._identity)

    def _taken_over(self, lease: Json, now: datetime) -> Json:
        transitions = (lease.get("spec", {}).get("leaseTransitions") or 0) + 1
        spec = {**lease.get("spec", {}), "leaseTransitions": transitions, "acquireTime": _micro_time(now)}
        return self._written({**lease, "spec": spec}, now, holder=self._identity)

    def _written(self, lease: Json, now: datetime, *, holder: str) -> Json:
        terms = {
            "holderIdentity": holder,
            "leaseDurationSeconds": int(self._terms.duration),
            "renewTime": _micro_time(now),
        }
        return {**lease, "spec": {**lease["spec"], **terms}}


def _micro_time(now: datetime) -> str:
    """Kubernetes' MicroTime: always six digits."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
