"""`sluice pause` and `sluice resume`: what is said back, and what cannot be done."""

from __future__ import annotations

import orjson
import pytest

from local import cli
from tests.app_commands.conftest import Sluice
from tests.orchestrations.stage import Stage


def test_a_pause_says_who_what_why_and_until_when(sluice: Sluice) -> None:
    stage = Stage()
    more = ("--pool", "spot", "--by", "ada", "--reason", "price watch", "--for", "2h")
    code, out, err = sluice(stage.host, "pause", *more)
    now = stage.timeline.now()
    assert (code, err) == (0, "")
    since, until = f"{now:%Y-%m-%d %H:%M}", f"{now:%Y-%m-%d} {now.hour + 2:02}:{now:%M:%S} UTC"
    assert out.startswith(f"cluster training: paused is pool spot, since {since}")
    assert out.endswith(f" by ada, until {until}: price watch\n")


def test_the_status_shows_the_pause(sluice: Sluice) -> None:
    stage = Stage()
    sluice(stage.host, "pause", "--by", "ada", "--reason", "upgrade")
    _, out, _ = sluice(stage.host, "status")
    assert out.splitlines()[0] == "cluster training, mode paused"
    assert " by ada, until it is resumed: upgrade" in out.splitlines()[1]


def test_resuming_says_what_has_ended(sluice: Sluice) -> None:
    stage = Stage()
    sluice(stage.host, "pause", "--by", "ada")
    code, out, _ = sluice(stage.host, "resume", "--by", "bob")
    assert code == 0
    assert out.startswith("cluster training: resumed is all of it, paused since ")
    assert sluice(stage.host, "status")[1].splitlines()[0] == "cluster training, mode act"


def test_resuming_what_was_not_paused_is_told(sluice: Sluice) -> None:
    assert "nothing was paused" in sluice(Stage().host, "resume")[1]


def test_json_is_the_app_s_own_answer(sluice: Sluice) -> None:
    _, out, _ = sluice(Stage().host, "pause", "--by", "ada", "-o", "json")
    assert orjson.loads(out)["pauses"]["*"]["by"] == "ada"


def test_a_pool_that_is_not_there_is_bad_input_in_the_app_s_words(sluice: Sluice) -> None:
    code, out, err = sluice(Stage().host, "pause", "--pool", "gold")
    assert (code, out) == (2, "")
    assert err == "pool gold: cluster training has no pool of that name; it has: spot, regular\n"


def test_a_cluster_that_is_not_there_is_bad_input(sluice: Sluice) -> None:
    code, _, err = sluice(Stage().host, "pause", "--cluster", "prod")
    assert code == 2
    assert err == "cluster prod: the app has no pools file of that name; the app has: training\n"


@pytest.mark.parametrize("span", ["2", "h", "2 hours", "-1h", "1w"])
def test_a_span_that_is_none_is_bad_input(span: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["pause", f"--for={span}"])
    assert ended.value.code == 2
    assert f"{span!r} is no duration: give one such as 30m, 2h or 1d" in capsys.readouterr().err
