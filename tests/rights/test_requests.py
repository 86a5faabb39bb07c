"""What the functions ask of an API server in all scenes is what the chart grants them and `sluice doctor` looks for.

Quick, and without a cluster; `make rights` takes each right away before a real one."""

from __future__ import annotations

import pytest

from functions.cluster_rights import NEEDED
from local.web import Request
from tests.rights.chart import FUNCTIONS
from tests.rights.cluster import Asked
from tests.rights.cluster_scenes import SCENES, perform


@pytest.fixture(scope="module")
def asked() -> set[Asked]:
    """By the functions, who may do everything here."""
    played = [perform(scene, lambda _: True, "anybody") for scene in SCENES if scene.account == FUNCTIONS]
    assert [each.broken for each in played] == [None] * len(played)
    return {request for each in played for request in each.asked}


def test_the_functions_ask_for_all_that_they_are_granted_and_nothing_else(asked: set[Asked]) -> None:
    needed = {(right.verb, right.group, right.resource) for right in NEEDED}
    assert {(each.verb, each.group, each.resource) for each in asked} == needed


def test_a_request_is_read_as_the_api_server_reads_it() -> None:
    one = Request("POST", "/api/v1/namespaces/default/pods/a/eviction", {}, {})
    assert Asked.of(one) == Asked("create", "", "v1", "pods/eviction", "default", "a")
    two = Request("GET", "/apis/apps/v1/daemonsets", {"watch": "true"}, {})
    assert Asked.of(two) == Asked("watch", "apps", "v1", "daemonsets")
