"""Rights that Azure or an API server says we lack: told where people look, with what to do about it.

Much of what may be refused holds up nothing else (a quota that cannot be read, a list of volumes), and some is only
met hours after the rollout. So whatever is refused, by whomever, is noted here as it passes; `status` shows it for an
hour after the last time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from shared.adapters.errors import Refused

LACKING = "rights.json"
TOLD_FOR = timedelta(hours=1)  # the sweep comes back every five minutes, its rare part every thirty
SELDOM = timedelta(minutes=10)  # a refusal that is noted already is not noted anew any sooner
MOST = 20
_BULK = ("get_each", "patch_each")

Json = dict[str, Any]


class Noting:
    """An adapter as it is, but `note` hears of whatever it is refused."""

    def __init__(self, adapter: object, note: Callable[[str], None]) -> None:
        self._adapter, self._note = adapter, note

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the adapter has
        found = getattr(self._adapter, name)
        if not callable(found):
            return found

        def called(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - the adapter's own
            try:
                answer = found(*arguments, **named)
            except Refused as error:
                self._note(error.message)
                raise
            if name in _BULK:  # these answer with errors as values
                for message in {each.message for each in answer if isinstance(each, Refused)}:
                    self._note(message)
            return answer

        return called


def noted(document: Json, message: str, now: datetime) -> Json | None:
    """The document with one more refusal; None when it was noted a short while ago."""
    entries = [each for each in document.get("lacking", ()) if now - _at(each) < TOLD_FOR]
    if any(each["what"] == message and now - _at(each) < SELDOM for each in entries):
        return None
    others = [each for each in entries if each["what"] != message]
    return {"lacking": [*others, {"what": message, "at": now.isoformat()}][-MOST:]}


def told(document: Json, now: datetime) -> list[Json]:
    """What was refused of late: [{what, at}]."""
    return [each for each in document.get("lacking", ()) if now - _at(each) < TOLD_FOR]


def _at(entry: Json) -> datetime:
    return datetime.fromisoformat(entry["at"])
