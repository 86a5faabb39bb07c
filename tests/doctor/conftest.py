"""One embedded system for all tests of the doctor: each gives back what it took."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from local import cli
from tests.doctor.clinic import Clinic

Look = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(scope="package")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinic]:
    running = Clinic(tmp_path_factory.mktemp("clinic"))
    yield running
    running.close()


@pytest.fixture
def look(clinic: Clinic, capsys: pytest.CaptureFixture[str]) -> Look:
    """Runs `sluice doctor` on the embedded system: the code, and the document."""

    def run(*more: str) -> tuple[int, dict[str, Any]]:
        code = cli.main(["doctor", "--out", str(clinic.out), "-o", "json", *more])
        return code, orjson.loads(capsys.readouterr().out)

    return run
