"""A VM with a data disk that would die with it is deleted on no path at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import functions
from functions.deletion import begin_deletion, refuse_doomed_disks
from functions.outcomes import Busy
from shared.adapters.protocols import Instance
from shared.model import Pool
from tests.builders import pool

FINE = Instance("0", "spot000000", "azure:///0", "Succeeded", "", None, "", (), "os", ("data",), (), {})
DOOMED = replace(FINE, instance_id="1", undeletable_disks=("/subscriptions/s/disks/pvc-1",))


class Azure:
    """What was asked of it: the only thing that this test is about."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...], bool]] = []

    def begin_delete(self, _pool: Pool, instance_ids: Sequence[str], *, force: bool = False) -> str:
        self.asked.append((tuple(instance_ids), force))
        return "token"


@pytest.mark.parametrize("force", [False, True])
def test_one_whose_disk_would_be_deleted_is_kept_and_the_others_go(force: bool) -> None:
    azure: Any = Azure()
    deletion = begin_deletion(azure, pool(), [FINE, DOOMED], force=force)
    assert azure.asked == [(("0",), force)]
    assert deletion.token == "token"
    assert "pvc-1" in deletion.kept["1"]
    assert "Detach" in deletion.kept["1"]


def test_azure_is_not_asked_for_nothing() -> None:
    azure: Any = Azure()
    assert begin_deletion(azure, pool(), [DOOMED]).token == ""
    assert azure.asked == []


def test_a_single_one_is_refused_by_name_of_the_disk() -> None:
    refuse_doomed_disks(FINE)
    refuse_doomed_disks(None)
    with pytest.raises(Busy, match="pvc-1"):
        refuse_doomed_disks(DOOMED)


def calls_of(name: str) -> Iterator[str]:
    """The modules of functions/ that call a method of that name."""
    for path in sorted(Path(functions.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name:
                yield path.stem


def test_every_deletion_of_a_vm_passes_through_the_one_guard() -> None:
    assert set(calls_of("begin_delete")) == {"deletion"}
