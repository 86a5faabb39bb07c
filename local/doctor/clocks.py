"""Other clocks as they are heard, each against this machine's at the moment of its answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime


class Clocks:
    """`offsets`: how far each clock was ahead of this machine's, by its last word."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self.offsets: dict[str, timedelta] = {}

    def now(self) -> datetime:
        """By this machine's clock."""
        return self._clock()

    def heard(self, name: str, theirs: datetime) -> None:
        """It said so just now."""
        self.offsets[name] = theirs - self._clock()

    def header(self, name: str, date: str | None) -> None:
        """An HTTP Date, if there was one: to the second, which is close enough."""
        if date:
            self.heard(name, parsedate_to_datetime(date))
