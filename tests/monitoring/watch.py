"""Azure Monitor's part: what the app logged on virtual time, and which alerts that makes fire when."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from tests.monitoring import kql
from tests.orchestrations.stage import Stage

MONITORING = Path(__file__).parents[2] / "infra" / "monitoring"
ALERTS: dict[str, dict[str, Any]] = orjson.loads((MONITORING / "log-alerts.json").read_bytes())
_UNITS = {"M": timedelta(minutes=1), "H": timedelta(hours=1)}


def duration(text: str) -> timedelta:
    """PT15M and the like."""
    return int(text[2:-1]) * _UNITS[text[-1]]


def query(alert: dict[str, Any]) -> str:
    """As Azure Monitor gets it."""
    return "\n".join(alert["query"])


class Watch(logging.Handler):
    """Every line of the app with its time."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(logging.INFO)
        self.stage = stage
        self.lines: list[tuple[datetime, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """As the Functions host takes it: the message, formatted."""
        self.lines.append((self.stage.timeline.now(), record.getMessage()))

    def fired(self, name: str) -> set[str]:
        """For which values of its dimension the alert fired, at any of its evaluations; "" where it has none."""
        alert, now = ALERTS[name], self.stage.timeline.now()
        found: set[str] = set()
        history: Counter[str] = Counter()
        at = min((when for when, _ in self.lines), default=now)
        while at <= now:
            failing = self._failing(alert, at)
            history = Counter({value: history[value] + 1 for value in failing})
            found |= {value for value, times in history.items() if times >= alert["failing"][0]}
            at += duration(alert["every"])
        return found

    def _failing(self, alert: dict[str, Any], at: datetime) -> set[str]:
        begin = at - duration(alert["window"])
        rows = kql.run(
            query(alert), {"AppTraces": [{"Message": line} for when, line in self.lines if begin < when <= at]}
        )
        counts = Counter(row[alert["dimensions"][0]] if alert["dimensions"] else "" for row in rows)
        return {value for value, count in counts.items() if count >= alert["threshold"]}


@contextmanager
def watched(stage: Stage) -> Iterator[Watch]:
    """Hear everything that the app says from now on."""
    watch, logger = Watch(stage), logging.getLogger("sluice")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(watch)
    try:
        yield watch
    finally:
        logger.removeHandler(watch)
        logger.setLevel(level)
