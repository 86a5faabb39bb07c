"""When a message is seen that lies in an Azure Storage queue: the poller of DurableTask.AzureStorage.

While a queue is empty, it is asked after 50 ms and then ever more seldom, up to `maxQueuePollingInterval`. Whoever adds
a message from within the same process wakes the poller; a message of another process, and a timer's, which is hidden
until it is due, wait for the next poll.
"""

from __future__ import annotations

import math
import random
import zlib

from bench.latency.model import PARTITIONS, POLL_SPREAD, SHORTEST_POLL


class Poller:
    """The loop over one queue. Times are seconds since anything."""

    def __init__(self, longest: float, source: random.Random, start: float) -> None:
        self._longest, self._source = longest, source
        self._polls = [start]
        self._exponent = 0

    def wake(self, at: float) -> None:
        """A message was taken at that time: the next polls come quickly again."""
        if at >= self._polls[0]:
            self._polls, self._exponent = [at], 0

    def next_poll(self, at: float) -> float:
        """The first poll at or after that time, if nothing is taken before."""
        while self._polls[-1] < at:
            pause = self._pause()
            if pause >= self._longest:
                last = self._polls[-1]
                return last + math.ceil((at - last) / self._longest) * self._longest
            self._polls.append(self._polls[-1] + pause)
        return next(poll for poll in self._polls if poll >= at)

    def _pause(self) -> float:
        """50 ms, then about 100, 150, 250, 450 and so on."""
        pause = SHORTEST_POLL
        if self._exponent:
            factor = self._source.uniform(1 - POLL_SPREAD, 1 + POLL_SPREAD)
            pause += factor * 2 ** (self._exponent - 1) * SHORTEST_POLL
        if pause < self._longest:
            self._exponent += 1
        return pause


class ControlQueues:
    """The queues that orchestrations and entities are reached by; one worker owns them all."""

    def __init__(self, longest: float, source: random.Random) -> None:
        self._pollers = [Poller(longest, source, source.uniform(-longest, 0.0)) for _ in range(PARTITIONS)]

    def own(self, target: str, at: float) -> None:
        """The worker itself sends a message: it looks at once."""
        self._poller(target).wake(at)

    def foreign(self, target: str, at: float) -> float:
        """Another process sends one at that time; when it is taken."""
        poller = self._poller(target)
        seen = poller.next_poll(at)
        poller.wake(seen)
        return seen

    def hidden(self, target: str, until: float) -> float:
        """One that is hidden until then: when it is taken, if its queue stays idle."""
        return self._poller(target).next_poll(until)

    def _poller(self, target: str) -> Poller:
        return self._pollers[zlib.crc32(target.encode()) % PARTITIONS]
