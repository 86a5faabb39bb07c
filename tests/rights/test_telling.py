"""A right that is missing is told where people look, as long as it is missing, and not at every request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from functions.lacking import MOST, Noting, noted, told
from local.kube.faults import Fault
from local.status_text import as_text
from shared.adapters.errors import NotFound, Refused
from tests.orchestrations.stage import Stage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Adapter:
    """One that is refused everything."""

    limit = 7

    def read(self, path: str) -> None:
        raise Refused(f"list {path}: no")

    def get(self, path: str) -> None:
        raise NotFound(path)

    def get_each(self, paths: list[str]) -> list[object]:
        return [Refused("get: no"), NotFound(paths[0]), Refused("get: no"), {}]


def test_what_is_refused_is_noted_and_still_raised() -> None:
    heard: list[str] = []
    api = Noting(Adapter(), heard.append)
    for ask in (api.read, api.get):
        try:
            ask("/x")
        except (Refused, NotFound):
            continue
        raise AssertionError("the error was swallowed")
    assert (heard, api.limit) == (["list /x: no"], 7)


def test_what_is_refused_in_bulk_is_noted_once() -> None:
    heard: list[str] = []
    assert len(Noting(Adapter(), heard.append).get_each(["/a"])) == 4
    assert heard == ["get: no"]


def test_the_same_lack_is_written_down_every_ten_minutes_at_most() -> None:
    document = noted({}, "a", NOW)
    assert document is not None
    assert noted(document, "a", NOW + 9 * MINUTE) is None
    again = noted(document, "a", NOW + 10 * MINUTE)
    assert again == {"lacking": [{"what": "a", "at": (NOW + 10 * MINUTE).isoformat()}]}


def test_a_lack_is_told_for_an_hour_after_the_last_time() -> None:
    document = noted({}, "a", NOW)
    assert document is not None
    assert told(document, NOW + 59 * MINUTE)
    assert told(document, NOW + 60 * MINUTE) == []
    later = noted(document, "b", NOW + 61 * MINUTE)
    assert later is not None
    assert [each["what"] for each in later["lacking"]] == ["b"]


def test_many_lacks_keep_the_newest() -> None:
    document: dict[str, object] = {}
    for number in range(MOST + 5):
        document = noted(document, str(number), NOW) or document
    assert [each["what"] for each in told(document, NOW)] == [str(number) for number in range(5, MOST + 5)]


def test_the_status_says_what_is_missing_and_what_to_do() -> None:
    stage = Stage()
    said = 'pods is forbidden: User "sluice" cannot list resource "pods" in API group "" at the cluster scope'
    stage.stand.cluster.faults.add(Fault("GET", "/pods", times=99, code=403, message=said))
    stage.host.client_start("reconcile", {"cluster": "training", "budgets": []}, "look")
    stage.run(60)
    lines = [line for line in as_text(stage.status()) if "a right is missing" in line]
    assert len(lines) == 1
    assert said in lines[0]
    assert "upgrade the release of the chart sluice-exporter" in lines[0]
