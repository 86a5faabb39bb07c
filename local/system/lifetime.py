"""The life of a process on virtual time: what it put on the timeline ends with it."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from local.timeline import Action, Due, VirtualTimeline


class HostCrash(BaseException):
    """The Functions host dies here and now, as by SIGKILL: no code of ours may catch this and go on.

    `where` says between which two steps, `down_for` after how many seconds another host is there.
    """

    def __init__(self, where: str, down_for: float) -> None:
        super().__init__(where)
        self.where, self.down_for = where, down_for


class Lifetime(VirtualTimeline):
    """A timeline within another one: the same clock and order, until `end`; afterwards nothing of it happens."""

    def __init__(self, inner: VirtualTimeline) -> None:
        super().__init__(inner.now())
        self._inner, self._over = inner, False
        self.lock = inner.lock

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._over

    def now(self) -> datetime:
        """See `Timeline.now`."""
        return self._inner.now()

    def call_at(self, when: datetime, action: Action) -> Due:
        """See `Timeline.call_at`."""
        return self._inner.call_at(when, partial(self._if_alive, action))

    def end(self) -> None:
        """Nothing that was put here will happen any more."""
        self._over = True

    def _if_alive(self, action: Action) -> None:
        if not self._over:
            action()
