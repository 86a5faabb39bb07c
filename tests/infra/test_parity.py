"""Terraform and Bicep say the same: whoever changes one is told to change the other."""

from __future__ import annotations

import json
import re

import pytest

from shared.adapters.app_access import AKS_SERVER
from tests.infra.readers import (
    BICEP,
    INFRA,
    bare,
    bicep_errors,
    bicep_text,
    bicep_types,
    terraform_blocks,
    terraform_text,
    terraform_types,
)

IMPLIED = {"Microsoft.Storage/storageAccounts/blobServices"}  # azurerm makes it part of the account
NESTED = {"Microsoft.DurableTask/schedulers/taskHubs"}  # a child inside its parent's declaration in Bicep
ROLES = {
    "Durable Task Data Contributor": "0ad04412-c4d5-4796-b79c-f76d14c8d402",
    "EventGrid Data Sender": "d5a91429-5739-47e2-a06b-3470a27159e7",
    "Key Vault Secrets User": "4633458b-17de-408a-b874-0445c86b69e6",
    "Monitoring Metrics Publisher": "3913510d-42f4-4e42-8a64-420c390055eb",
    "Storage Blob Data Contributor": "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    "Storage Blob Data Owner": "b7e6dc6d-f1e8-4753-8033-0f276bb0955b",
    "Storage Blob Data Reader": "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1",
    "Storage Queue Data Contributor": "974c5e8b-45b9-4653-ba55-5f855dd0fb88",
    "Storage Table Data Contributor": "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3",
}
"""Azure's built-in roles by name (Terraform) and id (Bicep)."""


@pytest.mark.parametrize("file", sorted(path.name for path in BICEP.glob("*.bicep")))
def test_bicep_parses(file: str) -> None:
    assert not bicep_errors(file)


def test_both_declare_the_same_kinds_of_resource() -> None:
    modules = [path.name for path in BICEP.glob("*.bicep") if path.name != "wire.bicep"]
    assert set(terraform_types("base")) - NESTED == set(bicep_types(*modules)) - IMPLIED


def test_both_wire_the_same_kinds_of_resource() -> None:
    assert set(terraform_types("wire")) == set(bicep_types("wire.bicep"))


def test_the_app_gets_the_same_settings_from_both() -> None:
    pattern = r'^\s+"?((?:[A-Z]\w*|AzureWebJobsStorage\w*|AzureFunctionsJobHost\w*))"?\s*[:=] '
    terraform = set(re.findall(pattern, terraform_text("base"), re.MULTILINE))
    bicep = bicep_text("base.bicep")
    settings = set(re.findall(pattern, bicep, re.MULTILINE)) - {
        "Application_Type",
        "WorkspaceResourceId",
        "DisableLocalAuth",
    }
    assert terraform | {"APPLICATIONINSIGHTS_CONNECTION_STRING"} == settings


def test_both_grant_the_same_built_in_roles() -> None:
    text = terraform_text("base")
    named = {name for name in ROLES if f'"{name}"' in text}
    ids = set(re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", bicep_text("base.bicep", "vault-right.bicep")))
    assert {ROLES[name] for name in named} == ids - {AKS_SERVER}


def test_both_ask_for_tokens_of_the_server_that_the_app_takes_for_aks() -> None:
    assert f'"{AKS_SERVER}"' in terraform_text("base")
    assert f"'{AKS_SERVER}'" in bicep_text("base.bicep")


def test_both_read_every_custom_role() -> None:
    files = {path.stem for path in (INFRA / "roles").glob("*.json")}
    bicep = set(re.findall(r"\.\./roles/([\w-]+)\.json", bicep_text("roles.bicep")))
    terraform = {name for name in files if f'"{name}"' in terraform_text("base")}
    assert files == bicep == terraform


def test_both_subscribe_to_the_same_events() -> None:
    terraform = {
        bare(name)
        for _, _, body in terraform_blocks("wire", "resource")
        for name in body.get("included_event_types", ())
    }
    assert terraform == set(re.findall(r"'((?:sluice|Microsoft)\.[\w.]+\w)'", events_of(bicep_text("wire.bicep"))))


def events_of(text: str) -> str:
    """The lists of event types alone."""
    return "\n".join(re.findall(r"(?:eventTypes = |includedEventTypes: )\[([^\]]*)\]", text))


def test_both_make_the_same_containers() -> None:
    pattern = r"""["'](config|dead-letters|package|snapshots-|plans-)"""
    assert set(re.findall(pattern, terraform_text("base"))) == set(re.findall(pattern, bicep_text("base.bicep")))


ONLY_IN_TERRAFORM = {"resource_group_name": "a deployment is made to a resource group"}


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def declared(kind: str, file: str) -> set[str]:
    """Names of a Bicep file's params or outputs."""
    return set(re.findall(rf"^{kind} (\w+) ", bicep_text(file), re.MULTILINE))


@pytest.mark.parametrize("stage", ["base", "wire"])
def test_both_ask_for_the_same_values(stage: str) -> None:
    terraform = {label for _, label, _ in terraform_blocks(stage, "variable")} - ONLY_IN_TERRAFORM.keys()
    assert {camel(name) for name in terraform} == declared("param", f"{stage}.bicep")


def test_both_answer_with_the_same_values() -> None:
    terraform = {label for _, label, _ in terraform_blocks("base", "output")}
    assert {camel(name) for name in terraform} == declared("output", "base.bicep")


LITERALS = {
    "attempts of a delivery": (r"max_delivery_attempts = (\d+)", r"maxDeliveryAttempts: (\d+)"),
    "minutes of them": (r"event_time_to_live    = (\d+)", r"eventTimeToLiveInMinutes: (\d+)"),
    "events of a batch": (r"max_events_per_batch\s+= (\d+)", r"maxEventsPerBatch: (\d+)"),
    "kilobytes of a batch": (r"preferred_batch_size_in_kilobytes = (\d+)", r"preferredBatchSizeInKilobytes: (\d+)"),
    "days that blobs live": (
        r"delete_after_days_since_modification_greater_than = (\d+)",
        r"daysAfterModificationGreaterThan: (\d+)",
    ),
    "names of subscriptions": (r'name\s+= "(sluice-[a-z]+)"', r"name: '(sluice-[a-z]+)'"),
    "groups kept warm": (r'"(durable|function:\w+)" = var', r"name: '(durable|function:\w+)'"),
    "version of Python": (r'runtime_version\s+= "([\d.]+)"', r"runtime: \{ name: 'python', version: '([\d.]+)' \}"),
    "version of TLS": (r'minimum_tls_version\s+= "([\d.]+)"', r"minTlsVersion: '([\d.]+)'"),
    "replication": (r'account_replication_type\s+= "(\w+)"', r"Standard_(\w+)'"),
    "whom tokens are for": (r'audience\s+= \["([^"]+)"\]', r"audiences: \['([^']+)'\]"),
    "who speaks for the exporter": (r'"system:serviceaccount:()', r"'system:serviceaccount:()"),
    "bounds of numbers": (r"always_ready(?:_ingest)? <= (\d+)", r"@maxValue\((20)\)"),
    "sizes of an instance": (r"contains\(\[([\d, ]+)\]", r"@allowed\(\[([\d, ]+)\]\)"),
    "metrics of topics": (r'metric_namespace = "([^"]+)"', r"metricNamespace: '([^']+)'"),
    "shape of events": (r'(?:input_schema|event_delivery_schema)\s+= "(\w+)"', r"(?:inputSchema|Schema): '(\w+)'"),
}
"""What stands in both as it is: (Terraform, Bicep)."""


@pytest.mark.parametrize("what", LITERALS)
def test_both_set_the_same(what: str) -> None:
    terraform, bicep = LITERALS[what]
    here = re.findall(terraform, terraform_text("base") + terraform_text("wire"))
    there = re.findall(bicep, bicep_text("base.bicep", "monitoring.bicep", "wire.bicep"))
    assert here
    assert set(here) == set(there)
    assert len(here) == len(there)


def test_both_read_the_same_alerts_and_dashboard() -> None:
    files = {path.name for path in (INFRA / "monitoring").glob("*.json")}
    pattern = r"\.\./monitoring/([\w-]+\.json)"
    assert set(re.findall(pattern, terraform_text("base"))) == files
    assert set(re.findall(pattern, bicep_text("monitoring.bicep"))) == files


@pytest.mark.parametrize("path", sorted((INFRA / "roles").glob("*.json")), ids=lambda path: path.stem)
def test_a_role_names_exact_actions_and_what_needs_them(path) -> None:
    role = json.loads(path.read_text())
    assert set(role) == {"name", "description", "actions"}
    for action, need in role["actions"].items():
        assert re.fullmatch(r"Microsoft\.\w+(/\w+)+/(read|write|delete|action)", action), action
        assert need
