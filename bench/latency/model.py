"""How long each thing takes that is not computed here. docs/benchmarks.md has every number with its source."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

STORAGE, SCHEDULER = "Azure Storage", "Durable Task Scheduler"


@dataclass(frozen=True, slots=True)
class Spread:
    """A log-normal time: `median` in seconds, and `factor`, by which one in a hundred is longer than it."""

    median: float
    factor: float

    def draw(self, source: random.Random) -> float:
        """Seconds."""
        return self.median * math.exp(source.gauss(0.0, math.log(self.factor) / 2.3263))


@dataclass(frozen=True, slots=True)
class Even:
    """An evenly spread time, in seconds."""

    low: float
    high: float

    def draw(self, source: random.Random) -> float:
        """Seconds."""
        return source.uniform(self.low, self.high)


HOP = {STORAGE: Spread(0.080, 3.2), SCHEDULER: Spread(0.020, 4.0)}
"""A durable message, from being sent to the code that it is for."""

ARM_READ = Spread(0.150, 2.5)
ARM_WRITE = Spread(0.350, 2.5)
"""Until ARM has accepted the operation; its answer takes as long."""
KUBERNETES = Even(0.005, 0.025)
KUBERNETES_PAGE = Even(0.030, 0.100)
BLOB = Even(0.005, 0.020)
CLIENT = Even(0.010, 0.040)
METADATA = Even(0.005, 0.030)
PUBLISH = Even(0.020, 0.100)
TOPIC = Even(0.050, 0.500)
PLATFORM_START = Even(2.0, 8.0)
AGENT_PERIOD = 1.0
SHORTEST_POLL = 0.050
POLL_SPREAD = 0.2
PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Model:
    """One way to run the app. `polling`: maxQueuePollingInterval in seconds. `warm`: an instance of each scale group
    is always ready. `retry_after`: what ARM says with an operation under way, in seconds, 0 for nothing. `judged`: the
    bars hold for it."""

    name: str
    provider: str
    polling: float = 0.0
    warm: bool = True
    retry_after: int = 0
    judged: bool = False

    @property
    def hop(self) -> Spread:
        """See `HOP`."""
        return HOP[self.provider]


_SCHEDULER = Model("scheduler", SCHEDULER, judged=True)
_STORAGE = Model("storage 1 s", STORAGE, polling=1.0, judged=True)
_SELDOM = Model("storage 10 s", STORAGE, polling=10.0)
_PACED = [replace(each, name=f"{each.name}, paced", retry_after=10, judged=False) for each in (_SCHEDULER, _STORAGE)]
_COLD = [replace(each, name=f"{each.name}, cold", warm=False, judged=False) for each in (_SCHEDULER, _STORAGE, _SELDOM)]
MODELS = (_SCHEDULER, _STORAGE, _SELDOM, *_PACED, *_COLD)
