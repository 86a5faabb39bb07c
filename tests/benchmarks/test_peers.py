import pytest

from bench import build_peers, cache, packing


def test_without_go_one_line_says_why_the_peers_are_left_out(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build_peers.main() == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("peers: skipped: no `go` on PATH")


def test_without_go_the_benchmark_goes_on_alone(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    packing.main(["--workload", "a-1000", "--repeats", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("peers skipped: no `go`")
    assert "without peers" in lines[-1]


def test_programs_in_the_cache_need_no_go(monkeypatch, tmp_path):
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    home = build_peers.home()
    home.mkdir(parents=True)
    for name in build_peers.PEERS:
        (home / name).touch()
    assert build_peers.programs() == {name: home / name for name in build_peers.PEERS}


def test_other_sources_are_other_programs(tmp_path):
    (tmp_path / "main.go").write_text("package main")
    before = cache.content_hash([tmp_path / "main.go"])
    (tmp_path / "main.go").write_text("package other")
    assert cache.content_hash([tmp_path / "main.go"]) != before


@pytest.mark.parametrize(("name", "needed"), [("karpenter", (1, 26, 9)), ("k8sffd", (1, 26, 0))])
def test_each_module_says_which_go_it_needs(name, needed):
    assert build_peers.needed_version(build_peers.SOURCES / name) == needed


def test_versions_compare_as_numbers():
    assert build_peers.version("1.26.10") > build_peers.version("1.26.9")
