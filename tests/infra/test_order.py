"""Two stages: each needs only what exists by then, and `wire` can go before `base` goes."""

from __future__ import annotations

import re

import pytest

from functions.app import create_app
from functions.services import Services
from tests.infra.readers import TERRAFORM, bicep_text, bicep_types, terraform_blocks, terraform_text, terraform_types

OWN = {"name", "eviction_notices"}
"""Inputs of `wire` that whoever applies it knows; all others are outputs of `base`."""

REFERENCE = re.compile(r"\b(azurerm_\w+|azapi_\w+|var|local|module|data)\.(\w+)")


def references(stage: str) -> set[tuple[str, str]]:
    """What a stage's expressions refer to, comments and plain texts left out."""
    text = re.sub(r"^\s*#.*$", "", terraform_text(stage), flags=re.MULTILINE)
    return set(REFERENCE.findall(re.sub(r'"[^"$]*"', "", text)))


def test_wire_asks_for_nothing_but_what_base_answers() -> None:
    inputs = {label for _, label, _ in terraform_blocks("wire", "variable")}
    assert inputs - OWN <= {label for _, label, _ in terraform_blocks("base", "output")}


def test_wire_refers_to_nothing_but_its_inputs_and_what_it_makes() -> None:
    inputs = {label for _, label, _ in terraform_blocks("wire", "variable")}
    made = {(kind, label) for kind, label, _ in terraform_blocks("wire", "resource")}
    for kind, label in references("wire"):
        known = label in inputs if kind == "var" else kind == "local" or (kind, label) in made
        assert known, f"{kind}.{label}"


def test_nothing_in_wire_waits_for_itself() -> None:
    made = {label: str(body) for _, label, body in terraform_blocks("wire", "resource")}
    needs = {label: {name for _, name in REFERENCE.findall(text)} & made.keys() for label, text in made.items()}
    order: list[str] = []
    while left := [label for label in made if label not in order]:
        ready = [label for label in left if needs[label] <= set(order)]
        assert ready, f"each of these waits for another: {left}"
        order += ready


def test_base_says_nothing_of_subscriptions_and_so_can_go_first() -> None:
    assert not {kind for kind in terraform_types("base") if "Subscription" in kind}
    assert not {kind for kind in bicep_types("base.bicep", "monitoring.bicep") if "Subscription" in kind}


def test_the_function_that_wire_leads_to_is_one_that_publishing_brings(services: Services) -> None:
    (name,) = re.findall(r"/functions/(\w+)", terraform_text("wire"))
    found = {each.get_function_name(): each.get_trigger().type for each in create_app(services).get_functions()}
    assert found[name] == "eventGridTrigger"
    assert set(re.findall(r"/functions/(\w+)", bicep_text("wire.bicep"))) == {name}


def test_the_container_of_dead_letters_and_the_right_to_fill_it_are_there_before() -> None:
    (container,) = set(re.findall(r'storage_blob_container_name = "([\w-]+)"', terraform_text("wire")))
    storage = (TERRAFORM / "base" / "storage.tf").read_text()
    assert f'"{container}"' in storage
    scopes = [str(body["scope"]) for _, label, body in terraform_blocks("base", "resource") if "scope" in body]
    assert any(container in scope for scope in scopes)


@pytest.fixture
def services() -> Services:
    """Nobody is asked: the app is only indexed."""

    def nobody(*_: object) -> None:
        raise AssertionError("an index asks nobody")

    return Services(compute=nobody, cluster=nobody, store=nobody, clock=nobody)  # type: ignore[arg-type] # as it says
