from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from local.arm import ArmLatencies, Quirks
from tests.azure_compute.world import World, make_world


@pytest.fixture(params=["in process", "over http"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The same behaviour is asked for over a socket and without one."""
    with ExitStack() as stack:
        yield make_world(stack, request.param, Quirks(), ArmLatencies())


@pytest.fixture
def quick() -> Iterator[World]:
    """For what has nothing to do with sockets."""
    with ExitStack() as stack:
        yield make_world(stack, "in process", Quirks(), ArmLatencies())
