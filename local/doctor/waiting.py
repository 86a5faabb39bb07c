"""`sluice doctor --wait-for ingest`: until the published app answers the handshake, since no subscription can be made
before. A new app takes minutes: its package is unpacked, its host starts, its triggers are told to the platform."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from local.doctor.findings import Cause, Finding
from local.doctor.judging_handshake import judge, unanswered
from local.doctor.probing_web import Unanswered, shake_hands

_PAUSES = (2.0, 3.0, 5.0, 10.0)  # seconds between attempts; the last one repeats


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and by which clock: `now` in seconds that only grow, `sleep` in the same."""

    seconds: float
    now: Callable[[], float]
    sleep: Callable[[float], None]
    say: Callable[[str], None]


def wait_for(base: str, function: str, key: Callable[[], str] | None, patience: Patience) -> Finding:
    """The last finding: one that is well, one that no waiting mends, or what was still wrong when time was over. Every
    change on the way is said. `key` is asked again each time, since the host makes it when it first starts; without
    one, an app that wants a key is waited for in vain."""
    begun, said, attempt = patience.now(), "", 0
    while True:
        finding = _look(base, function, key() if key is not None else "")
        waited = patience.now() - begun
        if not finding.bad or (finding.cause is Cause.RIGHTS and key is None):
            return finding
        if finding.message != said:
            said = finding.message
            patience.say(f"{waited:4.0f} s: {said}")
        pause = _PAUSES[min(attempt, len(_PAUSES) - 1)]
        if waited + pause > patience.seconds:
            return finding
        attempt += 1
        patience.sleep(pause)


def _look(base: str, function: str, key: str) -> Finding:
    try:
        answer = shake_hands(base, function, key)
    except Unanswered as error:
        return unanswered(function, base, str(error))
    return judge(function, answer.status, answer.headers)
