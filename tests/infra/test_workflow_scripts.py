"""The pipelines' scripts, run: jq and bash are real, what reaches Azure or a cluster only notes how it was called."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.infra.test_workflows import SETUP, path_of, steps

pytestmark = pytest.mark.infra

GROUP = "/subscriptions/11/resourceGroups/sluice/providers"
BASE = {
    "app_id": f"{GROUP}/Microsoft.Web/sites/sluice-ab12cd",
    "app_name": "sluice-ab12cd",
    "storage_account_id": f"{GROUP}/Microsoft.Storage/storageAccounts/sluicestate",
    "topics": {"training": f"{GROUP}/Microsoft.EventGrid/topics/sluice-training"},
    "exporter_values": {"training": {"cluster": "training", "clientId": "22"}},
}
VARIABLES = {
    "AZURE_CLIENT_ID": "33",
    "AZURE_TENANT_ID": "44",
    "AZURE_SUBSCRIPTION_ID": "11",
    "SLUICE_STATE_ACCOUNT": "tfstate",
    "SLUICE_STATE_CONTAINER": "sluice",
}
AKS = "/subscriptions/55/resourceGroups/clusters/providers/Microsoft.ContainerService/managedClusters/training"
RECORDED = ("az", "docker", "git", "helm", "kubectl", "kubelogin", "make", "sluice", "python", "terraform")
RECORDER = """#!/bin/bash
name=$(basename "$0")
printf '%s' "$name" >>"$CALLS"
printf ' %q' "$@" >>"$CALLS"
echo >>"$CALLS"
case "$name $*" in
"terraform "*" output -json") cat "$OUTPUTS" ;;
"docker inspect"*) echo registry.example.org/sluice-exporter@sha256:abc ;;
"git rev-parse HEAD") echo 0123abc ;;
esac
[ "$name" != "${FAILS:-}" ]
"""


class Runner:
    """A machine as GitHub lends it, with a checkout of the user's repository and of Sluice."""

    def __init__(self, folder: Path) -> None:
        self.work, self.calls = folder / "work", folder / "calls"
        programs, source = folder / "programs", self.work / ".sluice"
        for place in (programs, source / ".venv/bin", folder / "temp/bin", *self._stages(source)):
            place.mkdir(parents=True)
        for name in RECORDED:
            (programs / name).write_text(RECORDER)
            (programs / name).chmod(0o755)
        for name in ("sluice", "python"):
            shutil.copy(programs / name, source / ".venv/bin")
        shutil.copy(programs / "kubelogin", folder / "temp/bin")
        (source / "requirements.txt").write_text("numpy\n")
        for file, text in {
            "version": "v1.2.3",
            "base.tfvars": "",
            "wire.tfvars": "",
            "requirements.txt": "more\n",
        }.items():
            self.write(f"sluice/{file}", text)
        self.write("sluice/clusters/training/pools.yaml", "cluster: training")
        self.write("sluice/clusters/training/values.yaml", "{}")
        self.write("sluice/clusters/training/access.json", json.dumps({"aks": AKS}))
        self.outputs(BASE)
        self.environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "CALLS": str(self.calls),
            "OUTPUTS": str(folder / "outputs.json"),
            "RUNNER_TEMP": str(folder / "temp"),
            **{name: str(folder / name.lower()) for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH")},
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "VARS": json.dumps(VARIABLES),
            "ACCOUNT": "tfstate",
            "CONTAINER": "sluice",
            "CLUSTER": "training",
            "REGISTRY": "example.azurecr.io",
            "REPOSITORY": "example.azurecr.io/sluice-exporter",
            "DIGEST": "sha256:abc",
        }

    def _stages(self, source: Path) -> list[Path]:
        return [source / "infra/terraform" / stage for stage in ("base", "wire")]

    def write(self, name: str, text: str) -> None:
        (self.work / name).parent.mkdir(parents=True, exist_ok=True)
        (self.work / name).write_text(text)

    def outputs(self, values: dict) -> None:
        (self.work.parent / "outputs.json").write_text(
            json.dumps({name: {"value": each} for name, each in values.items()})
        )

    def step(self, script: str, folder: str = ".") -> subprocess.CompletedProcess[str]:
        """One script, as GitHub runs it; what it exports is there for the next."""
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        exported = Path(self.environment["GITHUB_ENV"])
        lines = exported.read_text().splitlines() if exported.exists() else []
        environment = {**self.environment, **dict(line.split("=", 1) for line in lines)}
        return subprocess.run(
            command, cwd=self.work / folder, env=environment, capture_output=True, text=True, check=False
        )

    def run(self, path: Path) -> list[str]:
        """Set-up and every script of a workflow; what was called, in order."""
        for step in (*steps(SETUP), *steps(path)):
            if "run" in step:
                done = self.step(step["run"], step.get("working-directory", "."))
                assert done.returncode == 0, f"{step.get('name')}: {done.stdout}{done.stderr}"
        return self.calls.read_text().splitlines()


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    if shutil.which("jq") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("jq is missing; CI needs it")
        pytest.skip("jq is not installed")
    return Runner(tmp_path)


def starting(calls: list[str], *beginnings: str) -> list[str]:
    return [call for call in calls if call.startswith(beginnings)]


def test_a_variable_that_is_not_set_is_named(runner: Runner) -> None:
    runner.environment["VARS"] = json.dumps({"AZURE_CLIENT_ID": "33"})
    done = runner.step(next(step["run"] for step in steps(SETUP) if "run" in step))
    assert done.returncode == 1
    assert "AZURE_TENANT_ID, AZURE_SUBSCRIPTION_ID, SLUICE_STATE_ACCOUNT, SLUICE_STATE_CONTAINER" in done.stdout


def test_a_plan_that_fails_is_no_plan(runner: Runner) -> None:
    (script,) = [step["run"] for step in steps(path_of("plan")) if step.get("name") == "Plan base"]
    assert runner.step(script).returncode == 0
    runner.environment["FAILS"] = "terraform"
    assert runner.step(script).returncode == 1


def test_both_stages_keep_their_state_apart_and_log_in_without_a_secret(runner: Runner) -> None:
    calls = starting(runner.run(path_of("apply")), "terraform")
    assert [call.rpartition("-backend-config=")[2] for call in calls[:2]] == [
        "key=sluice-base.tfstate",
        "key=sluice-wire.tfstate",
    ]
    assert "ARM_USE_OIDC=true" in Path(runner.environment["GITHUB_ENV"]).read_text()
    for stage in ("base", "wire"):
        command = ["terraform", "fmt", "-check", f".sluice/infra/terraform/{stage}/pipeline.tf"]
        if shutil.which("terraform"):
            real = {**os.environ, "TF_CLI_CONFIG_FILE": os.devnull}
            assert subprocess.run(command, cwd=runner.work, env=real, check=False).returncode == 0


def test_base_is_applied_as_it_was_planned(runner: Runner) -> None:
    planned, applied = starting(runner.run(path_of("apply")), "terraform")[-2:]
    assert " plan " in planned
    assert "-out=wanted" in planned
    assert planned.endswith("sluice/base.tfvars")
    assert applied == "terraform -chdir=.sluice/infra/terraform/base apply -no-color wanted"


def test_wire_takes_what_base_put_out(runner: Runner) -> None:
    calls = runner.run(path_of("wire"))
    given = json.loads((runner.work / ".sluice/infra/terraform/wire/base.auto.tfvars.json").read_text())
    assert given == {name: BASE[name] for name in ("app_id", "topics", "storage_account_id")}
    assert calls[-1] == "terraform -chdir=.sluice/infra/terraform/wire apply -no-color wanted"


def test_pools_files_are_read_and_uploaded_then_the_app_is_published_and_waited_for(runner: Runner) -> None:
    calls = runner.run(path_of("publish"))
    read, uploaded, packed, published, waited = calls[-5:]
    assert read.startswith("sluice plan --cluster empty.json --pools sluice/clusters/training/pools.yaml")
    assert "--account-name sluicestate --container-name config" in uploaded
    assert "--name training.yaml --file sluice/clusters/training//pools.yaml" in uploaded
    assert packed == "python -m tests.package.archive out/sluice.zip"
    assert "config-zip --resource-group sluice --name sluice-ab12cd --src out/sluice.zip" in published
    assert waited.startswith("sluice doctor --installation base.json --wait-for ingest")
    assert (runner.work / ".sluice/requirements.txt").read_text() == "numpy\nmore\n"


def test_the_chart_is_installed_with_the_image_that_was_pushed(runner: Runner) -> None:
    calls = runner.run(path_of("chart"))
    assert "docker push example.azurecr.io/sluice-exporter:0123abc" in calls
    written = Path(runner.environment["GITHUB_OUTPUT"]).read_text().splitlines()
    assert {"digest=sha256:abc", 'names=["training"]'} <= set(written)
    (installed,) = starting(calls, "helm upgrade")
    assert "--set image.repository=example.azurecr.io/sluice-exporter --set image.digest=sha256:abc" in installed
    assert "-f from-base.json -f sluice/clusters/training/values.yaml" in installed
    assert json.loads((runner.work / "from-base.json").read_text()) == BASE["exporter_values"]["training"]


def test_an_aks_cluster_is_reached_by_its_id(runner: Runner) -> None:
    (got,) = starting(runner.run(path_of("chart")), "az aks get-credentials")
    assert "--subscription 55 --resource-group clusters --name training" in got


def test_another_cluster_is_reached_by_a_kubeconfig_from_the_vault(runner: Runner) -> None:
    secret = "https://v.vault.azure.net/secrets/training"
    runner.write("sluice/clusters/training/access.json", json.dumps({"kubeconfig_secret": secret}))
    calls = runner.run(path_of("chart"))
    (got,) = starting(calls, "az keyvault secret download")
    assert f"--id {secret}" in got
    assert starting(calls, "az aks") == []


@pytest.mark.parametrize("outputs", [BASE, {}], ids=["a change", "before the first apply"])
def test_a_plan_writes_nothing(runner: Runner, outputs: dict) -> None:
    runner.outputs(outputs)
    calls = runner.run(path_of("plan"))
    planned = [call for call in starting(calls, "terraform") if " plan " in call]
    assert len(planned) == (2 if outputs else 1)
    assert all("-lock=false" in call for call in planned)
    assert len(starting(calls, "helm template")) == len(outputs.get("exporter_values", ()))
    assert starting(calls, "az", "kubectl", "helm upgrade", "docker") == []
