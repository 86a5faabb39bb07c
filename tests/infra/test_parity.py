"""Terraform and Bicep say the same: whoever changes one is told to change the other."""

from __future__ import annotations

import json
import re

import pytest

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
    assert {ROLES[name] for name in named} == ids


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


def test_wire_needs_nothing_that_it_makes_itself_or_that_comes_after() -> None:
    inputs = {label for _, label, _ in terraform_blocks("wire", "variable")}
    outputs = {label for _, label, _ in terraform_blocks("base", "output")}
    own = {"name", "eviction_notices"}
    assert inputs - own <= outputs
    assert not list(terraform_blocks("wire", "data"))


@pytest.mark.parametrize("path", sorted((INFRA / "roles").glob("*.json")), ids=lambda path: path.stem)
def test_a_role_names_exact_actions_and_what_needs_them(path) -> None:
    role = json.loads(path.read_text())
    assert set(role) == {"name", "description", "actions"}
    for action, need in role["actions"].items():
        assert re.fullmatch(r"Microsoft\.\w+(/\w+)+/(read|write|delete|action)", action), action
        assert need
