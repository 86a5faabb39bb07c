"""`sluice doctor --wait-for ingest`: until the published app agrees to receive events, and no longer than told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from local import cli
from local.doctor.findings import Cause, Status
from local.doctor.judging_handshake import judge
from local.doctor.waiting import Patience, wait_for
from local.http_server import serve
from local.web import Request, Response
from tests.doctor.clinic import Clinic

AGREES = Response(200, {"webhook-allowed-origin": "eventgrid.azure.net"})


class App:
    """Answers one thing after the other, the last one for ever."""

    def __init__(self, *answers: Response | Callable[[Request], Response]) -> None:
        self._answers = list(answers)
        self.requests: list[Request] = []

    def handle(self, request: Request) -> Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return answer if isinstance(answer, Response) else answer(request)


class Clock:
    """Time passes by sleeping alone."""

    def __init__(self, seconds: float = 600.0) -> None:
        self.time, self.said = 0.0, list[str]()
        self.patience = Patience(seconds, lambda: self.time, self.sleep, self.said.append)

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def test_an_app_that_answers_is_not_waited_for() -> None:
    app, clock = App(AGREES), Clock()
    with serve(app) as server:
        finding = wait_for(server.url, "ingest", lambda: "the key", clock.patience)
    assert finding.status is Status.OK
    assert (clock.time, clock.said) == (0.0, [])
    (asked,) = app.requests
    assert (asked.method, asked.path) == ("OPTIONS", "/runtime/webhooks/EventGrid")
    assert dict(asked.query) == {"functionName": "ingest", "code": "the key"}
    assert asked.headers["webhook-request-origin"] == "eventgrid.azure.net"


def test_every_change_on_the_way_is_said_once() -> None:
    app, clock = App(Response(503), Response(503), Response(404), AGREES), Clock()
    with serve(app) as server:
        assert not wait_for(server.url, "ingest", lambda: "k", clock.patience).bad
    assert clock.said == [
        "   0 s: the app answered 503 with WebHook-Allowed-Origin '', and agrees to nothing",
        "   5 s: the app has no function ingest (404)",
    ]
    assert clock.time == 10.0


def test_it_gives_up_in_time_with_what_was_wrong_last() -> None:
    app, clock = App(Response(404)), Clock(60.0)
    with serve(app) as server:
        finding = wait_for(server.url, "ingest", lambda: "k", clock.patience)
    assert finding.bad
    assert "func azure functionapp publish" in finding.remedy
    assert clock.time <= 60.0


def test_an_app_that_is_not_there_yet_is_waited_for() -> None:
    with serve(App(AGREES)) as server:
        url = server.url
    clock = Clock(30.0)
    finding = wait_for(url, "ingest", lambda: "k", clock.patience)
    assert (finding.bad, finding.cause) == (True, Cause.UNREACHABLE)
    assert len(clock.said) == 1


def test_the_key_is_asked_anew_until_the_host_has_made_one() -> None:
    keys = iter(["", "", "made"])

    def keyed(request: Request) -> Response:
        return AGREES if request.query.get("code") == "made" else Response(401)

    clock = Clock()
    with serve(App(keyed)) as server:
        assert not wait_for(server.url, "ingest", lambda: next(keys), clock.patience).bad
    assert clock.time > 0


def test_an_app_that_wants_a_key_which_nobody_knows_is_not_waited_for() -> None:
    clock = Clock()
    with serve(App(Response(401))) as server:
        finding = wait_for(server.url, "ingest", None, clock.patience)
    assert (finding.cause, clock.time) == (Cause.RIGHTS, 0.0)
    assert "SLUICE_EVENTGRID_KEY" in finding.remedy


@pytest.mark.parametrize("allowed", ["", "example.com"])
def test_an_answer_that_agrees_to_nobody_is_no_handshake(allowed: str) -> None:
    assert judge("ingest", 200, {"webhook-allowed-origin": allowed}).bad


@pytest.mark.parametrize(("answer", "code"), [(AGREES, 0), (Response(404), 5), (Response(401), 4)])
def test_a_script_sees_by_the_exit_code_what_came_of_it(
    answer: Response, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(App(answer)) as server:
        assert cli.main(["doctor", "--url", server.url, "--wait-for", "ingest", "--timeout", "1s"]) == code
    assert "handshake ingest" in capsys.readouterr().out


def test_waiting_needs_an_app(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--kubeconfig", "none", "--wait-for", "ingest"]) == 2
    assert "say which app" in capsys.readouterr().err


def test_the_embedded_app_answers_its_handshake(clinic: Clinic, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--out", str(clinic.out), "--wait-for", "ingest"]) == 0
    assert capsys.readouterr().err == ""
