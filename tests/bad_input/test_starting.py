"""What keeps a command from starting: one line on standard error that says what to do, and its kind's exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from local.http_server import serve
from local.kube.faults import Fault
from local.kube.stand_in import KubernetesStandIn
from local.system import embedded
from local.timeline import WallTimeline
from local.web import Request, Response
from tests.bad_input.command import (
    closed_port,
    kubeconfig,
    pools_file,
    refusals,
    sluice,
    sluice_exporter,
    taken_port,
    trace_file,
)

BAD_INPUT, UNREACHABLE, REFUSED = 2, 3, 4
TOKEN = "let-me-in"


def plan(folder: Path, config: str) -> int:
    return sluice("plan", "--kubeconfig", config, "--pools", pools_file(folder))


def watch(folder: Path, config: str, *more: str) -> int:
    return sluice_exporter("--kubeconfig", config, "--pools", pools_file(folder), *more)


Reader = Callable[..., int]
READERS = pytest.mark.parametrize("read", [plan, watch])


@pytest.fixture
def only_line(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """The one line that was written to standard error."""

    def line() -> str:
        lines = refusals(capsys)
        assert len(lines) == 1, lines
        return lines[0]

    return line


Line = Callable[[], str]


# The kubeconfig and the API server


@READERS
def test_a_missing_kubeconfig(read: Reader, tmp_path: Path, only_line: Line) -> None:
    assert read(tmp_path, str(tmp_path / "nowhere")) == BAD_INPUT
    assert "nowhere: there is no such file; name another with --kubeconfig" in only_line()


def without_context(path: str, **changes: object) -> str:
    document = yaml.safe_load(Path(path).read_text())
    Path(path).write_text(yaml.safe_dump({**document, **changes}))
    return path


@READERS
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"current-context": None}, "has no current-context; set one with kubectl config use-context, of: sluice"),
        ({"current-context": "other"}, "has no context 'other'; it has: sluice"),
        ({"contexts": []}, "has no context 'sluice'; it has: (none)"),
        ({"clusters": []}, "context 'sluice' cannot be used"),
    ],
)
def test_a_kubeconfig_without_a_usable_context(
    read: Reader, changes: dict[str, object], said: str, tmp_path: Path, only_line: Line
) -> None:
    config = without_context(kubeconfig(tmp_path, "http://127.0.0.1:1"), **changes)
    assert read(tmp_path, config) == BAD_INPUT
    assert said in only_line()


@READERS
@pytest.mark.parametrize("text", ["", "just words\n", "a: b: c\n", "[1, 2]\n"])
def test_a_file_that_is_no_kubeconfig(read: Reader, text: str, tmp_path: Path, only_line: Line) -> None:
    (tmp_path / "kube").write_text(text)
    assert read(tmp_path, str(tmp_path / "kube")) == BAD_INPUT
    assert f"kubeconfig {tmp_path / 'kube'}: " in only_line()


@READERS
def test_a_folder_that_is_no_kubeconfig(read: Reader, tmp_path: Path, only_line: Line) -> None:
    assert read(tmp_path, str(tmp_path)) == BAD_INPUT
    assert "cannot be read: Is a directory; name another" in only_line()


@READERS
def test_an_api_server_that_refuses_the_connection(read: Reader, tmp_path: Path, only_line: Line) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    assert read(tmp_path, kubeconfig(tmp_path, url)) == UNREACHABLE
    line = only_line()
    assert f"no answer from {url}" in line
    assert "Connection refused" in line
    assert "is the API server up?" in line or "check the address" in line


class Page:
    """Any other web server."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def handle(self, request: Request) -> Response:
        return Response(200, {"content-type": "text/html"}, self._body)


@READERS
@pytest.mark.parametrize("body", [b"<html>Welcome</html>", b"{}", b"[]", b"", b"\xff\x00"])
def test_a_server_that_is_no_api_server(read: Reader, body: bytes, tmp_path: Path, only_line: Line) -> None:
    with serve(Page(body)) as server:
        assert read(tmp_path, kubeconfig(tmp_path, server.url)) == UNREACHABLE
        assert f"what answers at {server.url} is no API server" in only_line()


# Rights


@pytest.fixture
def cluster() -> Iterator[tuple[KubernetesStandIn, str]]:
    """An API server that asks for a token, and its address."""
    timeline = WallTimeline()
    stand_in = KubernetesStandIn(timeline, token=TOKEN)
    with serve(stand_in, lock=timeline.lock) as server:
        yield stand_in, server.url
    timeline.close()


@READERS
def test_a_token_that_is_not_known(
    read: Reader, cluster: tuple[KubernetesStandIn, str], tmp_path: Path, only_line: Line
) -> None:
    _, url = cluster
    assert read(tmp_path, kubeconfig(tmp_path, url, "stolen")) == REFUSED
    line = only_line()
    assert "list /api/v1/pods: Unauthorized" in line


@READERS
@pytest.mark.parametrize("resource", ["pods", "nodes", "daemonsets"])
def test_a_right_that_is_missing_is_named_by_verb_and_resource(
    read: Reader, resource: str, cluster: tuple[KubernetesStandIn, str], tmp_path: Path, only_line: Line
) -> None:
    stand_in, url = cluster
    message = f'{resource} is forbidden: User "sluice" cannot list resource "{resource}" at the cluster scope'
    stand_in.faults.add(Fault("GET", f"/{resource}$", code=403, message=message, times=9))
    assert read(tmp_path, kubeconfig(tmp_path, url, TOKEN)) == REFUSED
    line = only_line()
    assert "list /api" in line
    assert f'cannot list resource "{resource}"' in line
    assert "planning needs to list" in line or "give the exporter's account that right" in line


def test_a_right_on_the_lease_that_is_missing_is_named(
    cluster: tuple[KubernetesStandIn, str], tmp_path: Path, only_line: Line
) -> None:
    stand_in, url = cluster
    stand_in.faults.add(Fault("GET", "/leases/", code=403, message="leases is forbidden: cannot get resource", times=9))
    assert watch(tmp_path, kubeconfig(tmp_path, url, TOKEN)) == REFUSED
    assert "get /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" in only_line()


# Ports


def test_the_api_server_s_port_in_use(tmp_path: Path, only_line: Line) -> None:
    with taken_port() as port:
        assert sluice("run", "--pools", pools_file(tmp_path), "--out", str(tmp_path), "--port", str(port)) == BAD_INPUT
    line = only_line()
    assert f"port {port} on 127.0.0.1 is in use: stop what listens there, or choose another" in line


def test_the_exporter_s_port_in_use(cluster: tuple[KubernetesStandIn, str], tmp_path: Path, only_line: Line) -> None:
    with taken_port() as port:
        assert watch(tmp_path, kubeconfig(tmp_path, cluster[1], TOKEN), "--port", str(port)) == BAD_INPUT
    line = only_line()
    assert f"--port {port}: cannot be used (Address already in use); choose another" in line


@pytest.mark.parametrize("port", ["99999", "-1", "http", "1.5", ""])
def test_a_port_that_is_none(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        sluice("run", f"--port={port}")
    assert end.value.code == BAD_INPUT
    assert f"{port!r} is no port: give a number from 1 to 65535" in refusals(capsys)[-1]


# Files and folders


@pytest.mark.parametrize("command", ["plan", "run", "simulate"])
def test_a_missing_pools_file(command: str, tmp_path: Path, only_line: Line) -> None:
    more = {
        "plan": ["--cluster", str(tmp_path / "dump.json")],
        "run": ["--out", str(tmp_path)],
        "simulate": ["--trace", trace_file(tmp_path), "--report", str(tmp_path)],
    }
    assert sluice(command, "--pools", str(tmp_path / "none.yaml"), *more[command]) == BAD_INPUT
    line = only_line()
    assert f"--pools {tmp_path / 'none.yaml'}: there is no such file; give the path of the pools file" in line


@pytest.mark.parametrize("command", ["plan", "run", "simulate"])
def test_a_pools_file_that_is_a_folder(command: str, tmp_path: Path, only_line: Line) -> None:
    more = {
        "plan": ["--cluster", str(tmp_path / "dump.json")],
        "run": ["--out", str(tmp_path)],
        "simulate": ["--trace", trace_file(tmp_path), "--report", str(tmp_path)],
    }
    assert sluice(command, "--pools", str(tmp_path), *more[command]) == BAD_INPUT
    assert "cannot read the pools file: Is a directory; give another path" in only_line()


def test_a_missing_pools_file_of_the_exporter(tmp_path: Path, only_line: Line) -> None:
    missing = str(tmp_path / "none.yaml")
    assert sluice_exporter("--pools", missing, "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1")) == BAD_INPUT
    assert "none.yaml: there is no such file; name it with --pools" in only_line()


def test_a_pools_file_of_the_exporter_that_cannot_be_read(tmp_path: Path, only_line: Line) -> None:
    folder = str(tmp_path)
    assert sluice_exporter("--pools", folder, "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1")) == BAD_INPUT
    assert "cannot be read: Is a directory; name another with --pools" in only_line()


def test_a_missing_trace(tmp_path: Path, only_line: Line) -> None:
    words = ["--pools", pools_file(tmp_path), "--trace", str(tmp_path / "none.csv"), "--report", str(tmp_path)]
    assert sluice("simulate", *words) == BAD_INPUT
    assert "none.csv: No such file or directory: give --trace a file" in only_line()


def test_a_missing_dump(tmp_path: Path, only_line: Line) -> None:
    assert sluice("plan", "--cluster", str(tmp_path / "none"), "--pools", pools_file(tmp_path)) == BAD_INPUT
    assert "none: there is no such file; give the path of the cluster dump" in only_line()


@pytest.mark.parametrize("where", ["a file", "below a file"])
def test_a_folder_that_cannot_be_written_to(where: str, tmp_path: Path, only_line: Line) -> None:
    (tmp_path / "taken").write_text("")
    folder = str(tmp_path / "taken" / "out" if where == "below a file" else tmp_path / "taken")
    assert sluice("run", "--pools", pools_file(tmp_path), "--out", folder) == BAD_INPUT
    assert f"--out {folder}: " in (line := only_line())
    assert "name a folder that can be written to" in line
    words = ["--pools", pools_file(tmp_path), "--trace", trace_file(tmp_path), "--report", folder]
    assert sluice("simulate", *words) == BAD_INPUT
    assert f"--report {folder}: " in (line := only_line())
    assert "name a folder that can be written to" in line


def test_a_folder_that_may_be_entered_and_not_written(
    tmp_path: Path, only_line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(dir: Path) -> None:  # noqa: A002 - the name of the parameter that is replaced
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr("local.cli_input.TemporaryFile", refuse)
    assert sluice("run", "--pools", pools_file(tmp_path), "--out", str(tmp_path)) == BAD_INPUT
    assert f"--out {tmp_path}: Permission denied: name a folder that can be written to" in only_line()


def test_two_embedded_systems_do_not_share_a_folder(tmp_path: Path, only_line: Line) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "journal.sqlite").write_text("of the one that runs")
    with embedded.claimed(tmp_path):
        assert sluice("run", "--pools", pools_file(tmp_path), "--out", str(tmp_path)) == BAD_INPUT
    assert f"--out {tmp_path}: another embedded system runs there: stop it, or name another folder" in only_line()
    assert (tmp_path / "state" / "journal.sqlite").exists()


def test_run_reads_its_pools_file_more_than_once(tmp_path: Path, only_line: Line) -> None:
    assert sluice("run", "--pools", "-", "--out", str(tmp_path)) == BAD_INPUT
    assert "--pools -: the parts read the file again" in only_line()


# Words


def test_sluice_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        sluice()
    assert end.value.code == BAD_INPUT
    said = capsys.readouterr().err
    assert all(f"\n    {command} " in said for command in ("run", "simulate", "plan", "status"))


@pytest.mark.parametrize("command", ["run", "simulate", "plan", "status"])
def test_every_command_explains_each_of_its_flags(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        sluice(command, "--help")
    assert end.value.code == 0
    lines = capsys.readouterr().out.partition("options:")[2].splitlines()
    flags = [number for number, line in enumerate(lines) if line.startswith("  -")]
    assert flags
    for number in flags:
        explained = "  " in lines[number].strip() or lines[number + 1].startswith("      ")
        assert explained, lines[number]


@pytest.mark.parametrize(
    "words", [["run", "--nonsense"], ["run", "--seed", "x"], ["status", "--url", "a", "--out", "b"]]
)
def test_a_wrong_flag_is_named_with_the_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        sluice(*words)
    assert end.value.code == BAD_INPUT
    said = capsys.readouterr().err
    assert said.startswith("usage: sluice")
    assert words[1] in said.splitlines()[-1] or words[3] in said.splitlines()[-1]
