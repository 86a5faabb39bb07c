"""`sluice status` against the app's own status document: what a person reads, what a script gets, and exit codes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from local import cli
from local.arm.faults import Fault
from local.http_server import serve
from local.system.endpoints import FUNCTIONS_PORT, STATE
from local.web import Handler, Request, Response
from tests.orchestrations.stage import POOLS, Stage

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def status(capsys: pytest.CaptureFixture[str]) -> Iterator[Say]:
    """Runs `sluice status` against a handler that is served over HTTP: the code, and both outputs."""

    def ask(handler: Handler, *more: str) -> tuple[int, str, str]:
        with serve(handler) as server:
            code = cli.main(["status", "--url", server.url, *more])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return ask


class Answers:
    def __init__(self, code: int, body: bytes = b"") -> None:
        self.response = Response(code, {}, body)
        self.requests: list[Request] = []

    def handle(self, request: Request) -> Response:
        self.requests.append(request)
        return self.response


def test_a_fresh_app_says_that_nothing_was_planned(status: Say) -> None:
    code, out, err = status(Stage().host)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "cluster training, mode act",
        "  no plan was made yet",
        "  nothing is under way",
        "dead letters: 0",
    ]


def test_what_was_bought_is_shown_while_it_comes(status: Say) -> None:
    stage = Stage()
    stage.submit(3)
    stage.run(2)
    stage.say(seconds=5)
    _, out, _ = status(stage.host)
    assert "adds 3 nodes to spot" in out
    assert "growing: spot by 3, " in out


def test_every_pod_that_is_not_served_has_a_reason_for_each_pool(status: Say) -> None:
    stage = Stage()
    stage.submit(7, cpu="300", prefix="huge")
    stage.run(2)
    stage.say(seconds=5)
    _, out, _ = status(stage.host)
    assert (
        "not served: default/huge-0, default/huge-1, default/huge-2, default/huge-3, default/huge-4 and 2 more" in out
    )
    assert "spot     NodeResourcesFit: needs 300 cpu, a new node has 4" in out
    assert "regular  NodeResourcesFit: needs 300 cpu, a new node has 4" in out


def test_what_azure_refused_is_shown_with_its_end(status: Say) -> None:
    stage = Stage()
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", "AllocationFailed", stage="async"))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=120)
    until = stage.status()["clusters"]["training"]["failures"][0]["until"]
    _, out, _ = status(stage.host)
    assert "Azure said no: AllocationFailed for Standard_D4s_v5, Spot; tried again after " in out
    assert f"{until[:10]} {until[11:19]} UTC" in out


def test_an_idle_node_that_stays_is_named_with_its_reason(status: Say) -> None:
    stage = Stage(POOLS.replace("max: 10", "max: 10, min: 1".replace(", ", "\n    ")))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=240)
    stage.finish()
    stage.idle(seconds=30)
    kept = stage.status()["clusters"]["training"]["plan"]["kept"]
    assert kept
    _, out, _ = status(stage.host)
    for node, reason in kept.items():
        assert f"stays: {node}, {reason}" in out


def test_a_node_on_its_way_out_is_shown(status: Say) -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=240)
    stage.finish()
    stage.idle(seconds=4)
    node = stage.nodes()[0]["metadata"]["name"]
    _, out, _ = status(stage.host)
    assert f"retires {node}: idle for 11 min" in out
    assert f"retiring: {node} of spot, d" in out


def test_a_verdict_on_a_node_is_shown_as_long_as_the_node_is_there(status: Say) -> None:
    stage = Stage()
    for name, known in (("n1", "sweep"), ("gone", "sweep")):
        verdict = {"node": name, "pool": "spot", "op": known, "at": "2026-01-01T00:00:00+00:00", "kept": "a bare pod"}
        stage.store.put("plans-training", f"nodes/{name}.json", orjson.dumps(verdict))
    meta = {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}}
    stage.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta})
    stage.say(seconds=2)
    _, out, _ = status(stage.host)
    assert "stayed when it was to go: n1 of spot, a bare pod, at 2026-01-01 00:00:00 UTC" in out
    assert "gone of spot" not in out


def test_observing_says_what_it_would_do(status: Say) -> None:
    stage = Stage(POOLS.replace("mode: act", "mode: observe"))
    stage.submit(2)
    stage.run(2)
    stage.say(seconds=5)
    _, out, _ = status(stage.host)
    assert "observe: would add 2 nodes to spot" in out


def test_a_refused_pools_file_is_shown_with_all_of_its_problems(status: Say) -> None:
    stage = Stage()
    stage.say(seconds=2)
    stage.stand.set_pools_file(POOLS.replace("max: 10", "max: -1").replace("price: 0.2", "colour: red"))
    code, out, _ = status(stage.host)
    assert code == 0
    assert "the newest pools file is refused, the last good one stays in force" in out
    assert "pools[0].max: " in out
    assert "pools[1].max: " in out
    assert "pools[1].colour: unknown key" in out


def test_dead_letters_are_counted(status: Say) -> None:
    stage = Stage()
    stage.publisher.publish([{**stage.event(), "type": "other"}])
    stage.run(2)
    assert "dead letters: 1, with their reasons in the container dead-letters" in status(stage.host)[1]


def test_json_is_the_app_s_own_document_and_nothing_else(status: Say) -> None:
    stage = Stage()
    code, out, err = status(stage.host, "-o", "json")
    assert (code, err) == (0, "")
    assert orjson.loads(out) == stage.status()


def test_a_cluster_that_the_app_has_not_is_bad_input_and_the_others_are_named(status: Say) -> None:
    code, out, err = status(Stage().host, "--cluster", "elsewhere")
    assert (code, out) == (2, "")
    assert "--cluster elsewhere" in err
    assert "it has: training" in err
    assert len(err.splitlines()) == 1


def test_one_cluster_is_asked_for_by_name(status: Say) -> None:
    code, out, _ = status(Stage().host, "--cluster", "training")
    assert code == 0
    assert out.startswith("cluster training, mode act\n")


@pytest.mark.parametrize("refusal", [401, 403])
def test_a_missing_key_is_a_refusal_that_names_where_it_goes(status: Say, refusal: int) -> None:
    code, out, err = status(Answers(refusal))
    assert (code, out) == (4, "")
    assert f"refused ({refusal})" in err
    assert "SLUICE_FUNCTION_KEY" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("variable", "header", "sent"),
    [("SLUICE_FUNCTION_KEY", "x-functions-key", "s3cret"), ("SLUICE_TOKEN", "authorization", "Bearer s3cret")],
)
def test_what_lets_one_in_travels_in_a_header_and_is_never_shown(
    status: Say, monkeypatch: pytest.MonkeyPatch, variable: str, header: str, sent: str
) -> None:
    monkeypatch.setenv(variable, "s3cret")
    answers = Answers(401)
    _, _, err = status(answers)
    assert answers.requests[0].headers[header] == sent
    assert "s3cret" not in err


def test_the_apps_own_word_about_a_refusal_is_passed_on(status: Say) -> None:
    code, _, err = status(Answers(403, b'{"error": "ann has none of the roles"}'))
    assert code == 4
    assert "refused (403): ann has none of the roles" in err


@pytest.mark.parametrize(
    ("handler", "code", "said"),
    [
        (Answers(500), 3, "answered 500"),
        (Answers(404), 2, "there is no function status"),
        (Answers(200, b"<html>"), 3, "no Function App of Sluice"),
        (Answers(200, b"[1]"), 3, "no Function App of Sluice"),
    ],
)
def test_anything_else_that_answers_is_told_in_one_line(status: Say, handler: Answers, code: int, said: str) -> None:
    got, out, err = status(handler)
    assert (got, out) == (code, "")
    assert said in err
    assert len(err.splitlines()) == 1


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_an_app_that_does_not_answer_is_unreachable(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", "--url", f"http://127.0.0.1:{closed_port()}/api/status"]) == 3
    err = capsys.readouterr().err
    assert "nothing answers there" in err
    assert "check --url" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "url", ["app.example", "ftp://app.example", "https://", "http://[::1", "http://app.example:99999"]
)
def test_an_address_that_is_none_is_bad_input(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", "--url", url]) == 2
    err = capsys.readouterr().err
    assert f"--url {url}: give an address" in err
    assert len(err.splitlines()) == 1


def test_the_embedded_system_is_found_by_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serve(Stage().host) as server:
        (tmp_path / STATE).mkdir()
        (tmp_path / STATE / FUNCTIONS_PORT).write_text(str(server.port))
        assert cli.main(["status", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("cluster training")


@pytest.mark.parametrize("left", ["nothing", "port"])
def test_without_a_running_system_the_line_says_how_to_start_one(
    left: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if left == "port":
        (tmp_path / STATE).mkdir()
        (tmp_path / STATE / FUNCTIONS_PORT).write_text(str(closed_port()))
    assert cli.main(["status", "--out", str(tmp_path)]) == 3
    err = capsys.readouterr().err
    assert "sluice run --keep" in err
    assert len(err.splitlines()) == 1
