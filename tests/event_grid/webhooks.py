"""Webhooks that answer as they are told."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import orjson

from local.event_grid import EventGridTopic, Subscription
from local.timeline import VirtualTimeline
from local.web import Request, Response


def event(identity: str, kind: str = "t", data: object = None) -> dict[str, Any]:
    return {"specversion": "1.0", "id": identity, "source": "/s", "type": kind, "data": data}


class Webhook:
    """Answers with the next of `answers`, then with 200."""

    def __init__(self, *answers: int, timeline: VirtualTimeline | None = None) -> None:
        self._answers, self._timeline = list(answers), timeline
        self.events: list[dict[str, Any]] = []
        self.batches: list[int] = []
        self.times: list[datetime] = []

    def __call__(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(200, {"WebHook-Allowed-Origin": request.headers["webhook-request-origin"]})
        if self._timeline is not None:
            self.times.append(self._timeline.now())
        status = self._answers.pop(0) if self._answers else 200
        if status == 200:
            events = orjson.loads(request.body)
            self.events += events
            self.batches.append(len(events))
        return Response(status)

    @property
    def ids(self) -> list[str]:
        return [found["id"] for found in self.events]

    def waits(self) -> list[timedelta]:
        return [later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False)]


def subscribe(topic: EventGridTopic, webhook: Webhook, **options: Any) -> Webhook:
    topic.subscribe(Subscription("s", "http://webhook.invalid/hook", webhook, **options))
    return webhook
