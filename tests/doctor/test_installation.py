"""Outputs of the stage `base`, of either tool, and what the doctor does before there are any."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from local import cli
from local.doctor.installation import Installation, NotOutputs, read_outputs
from tests.doctor.clinic import Clinic

APP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Web/sites/sluice-1"
TERRAFORM = {
    "app_id": APP,
    "app_hostname": "sluice-1.azurewebsites.net",
    "app_principal_id": "p",
    "topics": {"training": "/topic"},
}
BICEP = {
    "appId": APP,
    "appHostname": "sluice-1.azurewebsites.net",
    "appPrincipalId": "p",
    "topics": [{"cluster": "training", "id": "/topic"}],
}


def wrapped(outputs: dict[str, object]) -> bytes:
    return orjson.dumps({name: {"sensitive": False, "type": "string", "value": each} for name, each in outputs.items()})


@pytest.mark.parametrize("outputs", [TERRAFORM, BICEP])
def test_terraform_and_bicep_say_the_same(outputs: dict[str, object]) -> None:
    found = read_outputs(wrapped(outputs))
    assert found == Installation(APP, "https://sluice-1.azurewebsites.net", "p", {"training": "/topic"})


@pytest.mark.parametrize(
    ("data", "told"),
    [(b"{", "is no JSON"), (b"[]", "is no JSON object"), (b"{}", "has no output app_id")],
)
def test_what_is_no_outputs_is_told(data: bytes, told: str) -> None:
    with pytest.raises(NotOutputs, match=told):
        read_outputs(data)


def test_a_file_of_something_else_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "base.json"
    file.write_bytes(b"{}")
    assert cli.main(["doctor", "--installation", str(file)]) == 2
    assert "terraform -chdir=infra/terraform/base output -json" in capsys.readouterr().err


def test_nothing_to_look_at_is_told_with_what_to_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--out", str(tmp_path)]) == 3
    assert "--installation, --url or --pools" in capsys.readouterr().err


def test_an_app_alone_is_examined_by_its_address(clinic: Clinic, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--url", clinic.app_url]) == 0
    out = capsys.readouterr().out
    assert "ok    cluster-rights demo" in out
    assert "skip  arm: not looked at" in out
    assert "skip  cluster: not looked at" in out


def test_a_kubeconfig_alone_is_not_enough_to_look_into_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--kubeconfig", "some"]) == 0
    assert "skip  cluster: no pools file says what should be there" in capsys.readouterr().out


def test_a_cluster_that_the_app_does_not_know_is_told(clinic: Clinic, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--url", clinic.app_url, "--cluster", "other"]) == 5
    assert "FAIL  pools-file other: the app has no such pools file" in capsys.readouterr().out
