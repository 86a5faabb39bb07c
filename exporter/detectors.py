"""What is worth an event, and when: pure state machines fed with what changed and asked what is due.

Each has `observe...` (only what changed), `due(now)` (what to announce now; it remembers that) and `next_due` (when to
ask again). Announcing is repeated while the condition lasts, so that an event lost on the way heals by itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shared.model import Movability, NodeView

_NEVER = datetime(1, 1, 1, tzinfo=UTC)
_WITHDRAWN = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often things are said.

    `longest_window`: seconds that a debounce may be extended in all; pods that trickle in for longer have waited
    enough. `pods_again`: seconds after which pods that still wait are announced again; a lost event costs this much.
    `pods_after_join`: the same, in seconds after the last nodes joined, and twice as long after each time. The
    scheduler spreads pods where a plan packs them, and what was bought for all may hold all but a few. Those that are
    only being backed off (for ten seconds at most) fit what is there, so nothing is bought for them by asking early.
    `idle_again`: the same for an idle node, in seconds; longer, since an idle node costs money and not time.
    `evicting_again`: a lost eviction notice is worth nothing after half a minute. `joined_debounce`: nodes that join
    together are one event; nobody waits for it, as the pods are bound by then.
    """

    longest_window: float = 10.0
    pods_again: float = 60.0
    pods_after_join: float = 5.0
    idle_again: float = 300.0
    evicting_again: float = 10.0
    joined_debounce: float = 2.0


class UnschedulableDetector:
    """Pods that the scheduler gave up on: announced once they stop coming, and again while the pressure lasts.

    A pod that was announced is not news again within `again` seconds, even when it left and came back. In a burst the
    scheduler takes its time to give up on all of them, while a snapshot holds them from their creation on: pods that it
    has said nothing about yet are taken for announced with the others, and what is waited for is their creation to end.
    """

    def __init__(self, debounce: float, cadence: Cadence) -> None:
        self.debounce = timedelta(seconds=debounce)
        self._longest = timedelta(seconds=cadence.longest_window)
        self._again = timedelta(seconds=cadence.pods_again)
        self._after_join = timedelta(seconds=cadence.pods_after_join)
        self._room_tried: datetime | None = None
        self._patience = self._again
        self._present: set[str] = set()
        self._fresh: set[str] = set()
        self._announced: dict[str, datetime] = {}
        self._window_from = self._last_announced = _NEVER
        self._waiting: set[str] = set()
        self._unsaid: dict[str, datetime] = {}  # since when each waits that no announcement has covered, oldest first

    def observe(
        self,
        appeared: Collection[str],
        gone: Collection[str],
        now: datetime,
        *,
        arrived: Collection[str] = (),
        left: Collection[str] = (),
    ) -> None:
        """Uids of pods that became unschedulable, and of pods that no longer are; `arrived` and `left`: the same for
        pods that wait, whether the scheduler has given up on them or not."""
        for uid in (*gone, *left):
            self._unsaid.pop(uid, None)
        self._present.difference_update(gone)
        self._fresh.difference_update(gone)
        self._waiting.difference_update(left)
        for uid in arrived:
            self._waiting.add(uid)
            if self._is_news(uid, now):
                self._unsaid[uid] = now
        for uid in appeared:
            self._present.add(uid)
            if self._is_news(uid, now):
                self._window_from = self._window_from if self._fresh else now
                self._unsaid.setdefault(uid, now)
                self._fresh.add(uid)

    def _is_news(self, uid: str, now: datetime) -> bool:
        return uid not in self._announced or self._announced[uid] + self._again <= now

    def freed(self, uids: Iterable[str], now: datetime) -> None:
        """Their claims hold these pods back no longer: news, though they were announced."""
        for uid in uids:
            if uid in self._present:
                self._announced.pop(uid, None)
                self.observe((uid,), (), now)

    def joined(self, now: datetime) -> None:
        """There is new room: the scheduler is to try it before what is left over is announced again.

        A busy one may not be through with it by then, so from then on pods are announced more and more seldom.
        """
        self._patience = self._after_join
        self._room_tried = now + self._patience

    def forget(self, now: datetime) -> None:
        """What is there is news again: for a holder who does not know what the last one said."""
        self._announced.clear()
        present, self._present, self._fresh = self._present, set(), set()
        self.observe(present, (), now)

    def due(self, now: datetime) -> int:
        """How many pods to announce now; 0 when it is not the time."""
        when = self.next_due(now)
        if when is None or when > now:
            return 0
        self._announced = {uid: at for uid, at in self._announced.items() if at + self._again > now}
        self._announced.update(dict.fromkeys(self._present | self._waiting, now))
        self._fresh.clear()
        self._unsaid.clear()
        self._patience = min(2 * self._patience, self._again)
        self._room_tried = now + self._patience
        self._last_announced = now
        return len(self._present)

    def next_due(self, now: datetime) -> datetime | None:
        """When `due` has something to say if nothing else happens; None while no pod waits."""
        if self._fresh:
            last_arrival = next(reversed(self._unsaid.values()), self._window_from)
            settled = min(max(last_arrival, self._window_from) + self.debounce, self._window_from + self._longest)
            return max(settled, now)
        if self._present:
            again = self._last_announced + self._again
            return max(min(again, self._room_tried or again), now)
        return None


class NodeRepeater:
    """Nodes with a condition that lasts: each is announced when its time has come, and every `again` seconds after."""

    def __init__(self, again: float) -> None:
        self._again = timedelta(seconds=again)
        self._due_at: dict[str, datetime] = {}
        self._announced: set[str] = set()
        self._order: list[tuple[datetime, str]] = []

    def start(self, node: str, when: datetime) -> None:
        """From `when` on; a node that has its time already keeps it."""
        if node not in self._due_at:
            self._schedule(node, when)

    def renew(self, node: str, now: datetime) -> None:
        """Something about the node is news: if it was announced before, it is announced again now."""
        if node in self._announced:
            self._announced.discard(node)
            self._schedule(node, now)

    def clear(self, node: str) -> None:
        """The condition ended."""
        self._due_at.pop(node, None)
        self._announced.discard(node)

    def forget(self, now: datetime) -> None:
        """Announce again what was announced: for a holder who does not know what the last one said."""
        for node in sorted(self._announced):
            self._schedule(node, now)
        self._announced.clear()

    def due(self, now: datetime) -> list[str]:
        """Nodes to announce now, in the order of their times."""
        found = []
        while (when := self.next_due()) is not None and when <= now:
            _, node = heapq.heappop(self._order)
            found.append(node)
            self._announced.add(node)
            self._schedule(node, now + self._again)
        return found

    def next_due(self) -> datetime | None:
        """The earliest time, or None."""
        while self._order and self._due_at.get(self._order[0][1]) != self._order[0][0]:
            heapq.heappop(self._order)  # cleared or moved since it was put there
        return self._order[0][0] if self._order else None

    def _schedule(self, node: str, when: datetime) -> None:
        self._due_at[node] = when
        heapq.heappush(self._order, (when, node))


class IdleDetector:
    """Nodes below the utilisation threshold: since when, and the event once that was long enough.

    Only ready nodes of our pools count. One that retires already is not announced, but its time runs on, so that an
    aborted retirement is taken up again at once. When a pod leaves an idle node, the node is news again: the pod may
    have been all that kept it. `since` comes from the predecessor when the thresholds changed.
    """

    def __init__(
        self, idle_after: float, utilization_below: float, cadence: Cadence, since: Mapping[str, datetime] | None = None
    ) -> None:
        self._idle_after = timedelta(seconds=idle_after)
        self._below = utilization_below
        self.since: dict[str, datetime] = dict(since or {})
        self.repeater = NodeRepeater(cadence.idle_again)
        self._load: dict[str, frozenset[str]] = {}

    def observe(self, node: NodeView, utilization: float, now: datetime, *, retiring: bool) -> datetime | None:
        """The node as it is now; returns since when it idles, None when it does not."""
        if not node.pool or not node.ready or utilization >= self._below:
            self.gone(node.name)
            return None
        since = self.since.setdefault(node.name, now)
        before, load = self._load.get(node.name, frozenset()), _load(node)
        self._load[node.name] = load
        if retiring:
            self.repeater.clear(node.name)
            return since
        self.repeater.start(node.name, since + self._idle_after)
        if before - load:
            self.repeater.renew(node.name, now)
        return since

    def gone(self, name: str) -> None:
        """Busy, or no longer there."""
        self.since.pop(name, None)
        self._load.pop(name, None)
        self.repeater.clear(name)


def _load(node: NodeView) -> frozenset[str]:
    """The pods that hold the node, by uid."""
    held = (bound.pods for bound in node.bound if bound.movability is not Movability.STAYS)
    return frozenset(pod.uid for pods in held for pod in pods)


class EvictingDetector:
    """Nodes that Azure takes away: said at once, and again and again until they are gone. A time that has long passed
    on a node that still changes was withdrawn: some agents never take their condition back."""

    def __init__(self, cadence: Cadence) -> None:
        self.repeater = NodeRepeater(cadence.evicting_again)

    def observe(self, node: NodeView, now: datetime) -> None:
        """The node as it is now."""
        if node.evicting_at is None or now - node.evicting_at > _WITHDRAWN:
            self.gone(node.name)
        else:
            self.repeater.start(node.name, now)

    def gone(self, name: str) -> None:
        """The node is no longer there."""
        self.repeater.clear(name)


class JoinedDetector:
    """Nodes that became ready for the first time. After a start of the exporter only those that registered lately:
    an older one has been seen by whoever waited for it. One with a startup taint of ours counts once the taint is all
    that holds pods back: then it waits for a plan."""

    def __init__(self, lately: float, cadence: Cadence) -> None:
        self.lately = timedelta(seconds=lately)
        self._debounce = timedelta(seconds=cadence.joined_debounce)
        self._seen: dict[str, str] = {}
        self._fresh: dict[str, datetime] = {}

    def observe(self, node: NodeView, now: datetime, *, starts: bool = False) -> None:
        """The node as it is now, `starts` while there is more to come; a successor of its name is another node."""
        if not node.ready or starts or self._seen.get(node.name) == node.uid:
            return
        self._seen[node.name] = node.uid
        if node.created_at + self.lately > now:
            self._fresh[node.name] = now

    def gone(self, name: str) -> None:
        """The node is no longer there."""
        self._seen.pop(name, None)
        self._fresh.pop(name, None)

    def due(self, now: datetime) -> list[str]:
        """Names of nodes to announce now, in the order in which they came."""
        when = self.next_due()
        if when is None or when > now:
            return []
        found = [name for name, since in self._fresh.items() if since + self.lately > now]
        self._fresh.clear()
        return found

    def next_due(self) -> datetime | None:
        """When `due` has something to say if nothing else happens."""
        return next(iter(self._fresh.values())) + self._debounce if self._fresh else None
