"""What Azure sees of the app: names, triggers, signatures, files."""

from __future__ import annotations

import inspect
import typing
from pathlib import Path

import azure.functions as func
import orjson
import pytest

from functions.app import create_app
from functions.services import Services
from shared.adapters.composition import kubeconfig_setting, services_from_environment
from shared.adapters.errors import Rejected
from shared.model import AzureScope

ROOT = Path(__file__).parents[2]
NAMES = {
    "eventGridTrigger": {"ingest"},
    "timerTrigger": {"maintenance"},
    "httpTrigger": {"status", "pause", "resume", "history", "explain", "doctor"},
    "entityTrigger": {"cluster", "request_budget"},
}
ORCHESTRATIONS = {
    "admit",
    "plan_capacity",
    "grow_pool",
    "retire_node",
    "replace_evicted",
    "await_operation",
    "reconcile",
}


@pytest.fixture(scope="module")
def functions() -> list[typing.Any]:
    services = services_from_environment({}, Services)
    app = create_app(services)
    assert isinstance(app, func.FunctionRegister)
    return list(app.get_functions())


def test_the_functions_have_the_names_that_the_outside_knows(functions: list[typing.Any]) -> None:
    for kind, names in NAMES.items():
        assert {each.get_function_name() for each in functions if each.get_trigger().type == kind} == names
    orchestrations = {
        each.get_function_name() for each in functions if each.get_trigger().type == "orchestrationTrigger"
    }
    assert orchestrations >= ORCHESTRATIONS


def test_two_apps_live_in_one_process(functions: list[typing.Any]) -> None:
    another = create_app(services_from_environment({}, Services))
    assert len(list(another.get_functions())) == len(functions)


def test_the_sweep_comes_every_five_minutes(functions: list[typing.Any]) -> None:
    timer = next(each for each in functions if each.get_function_name() == "maintenance")
    assert timer.get_trigger().schedule == "0 */5 * * * *"


def test_annotations_can_be_resolved_as_the_worker_resolves_them(functions: list[typing.Any]) -> None:
    for each in functions:
        function = each.get_user_function()
        names = {binding.name for binding in each.get_bindings() if binding.name != "$return"}
        assert set(inspect.signature(function).parameters) == names, each.get_function_name()
        typing.get_type_hints(function)


def test_functions_with_a_durable_client_are_async(functions: list[typing.Any]) -> None:
    for each in functions:
        if any(binding.type == "durableClient" for binding in each.get_bindings()):
            assert inspect.iscoroutinefunction(each.get_user_function()), each.get_function_name()


def test_no_retry_variant_of_the_sdk_is_called() -> None:
    for module in (ROOT / "functions").glob("*.py"):
        assert "_with_retry" not in module.read_text(), module.name


def test_host_json_asks_for_the_bundle_that_carries_the_task_scheduler() -> None:
    host = orjson.loads((ROOT / "host.json").read_bytes())
    assert host["extensionBundle"]["version"] == "[4.30.0, 5.0.0)"
    assert host["extensions"]["durableTask"]["hubName"] == "%TASKHUB_NAME%"


def test_the_example_of_local_settings_names_every_setting() -> None:
    values = orjson.loads((ROOT / "local.settings.json.example").read_bytes())["Values"]
    assert {"SLUICE_STORAGE_ACCOUNT_URL", "SLUICE_ARM_ENDPOINT", "TASKHUB_NAME"} <= set(values)
    assert kubeconfig_setting("training") in values


def test_a_missing_setting_is_told_by_name_at_its_first_use() -> None:
    services = services_from_environment({}, Services)
    with pytest.raises(Rejected, match="SLUICE_STORAGE_ACCOUNT_URL is missing"):
        services.store()
    with pytest.raises(Rejected, match="SLUICE_KUBECONFIG_MY_CLUSTER is missing"):
        services.cluster("my-cluster")


def test_a_key_vault_reference_that_was_not_resolved_is_told_as_such() -> None:
    reference = {kubeconfig_setting("training"): "@Microsoft.KeyVault(SecretUri=https://v.vault.azure.net/secrets/k)"}
    with pytest.raises(Rejected, match="unresolved Key Vault reference"):
        services_from_environment(reference, Services).cluster("training")


def test_each_client_is_made_once() -> None:
    services = services_from_environment({"SLUICE_STORAGE_ACCOUNT_URL": "https://a.blob.core.windows.net"}, Services)
    scope = AzureScope("s", "g", "westeurope")
    assert services.compute(scope) is services.compute(scope)
    assert services.store() is services.store()
