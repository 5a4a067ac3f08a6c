"""One real cluster for all tests that need one: proxy, hub, manager, Net Switch, three agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.person import Person
    from tests.support.world import World


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give the running cluster, with a folder to plant faults in."""
    from tests.support.world import running_world

    with running_world(tmp_path_factory.mktemp) as one:
        yield one


@pytest.fixture
def well(world: World) -> Iterator[World]:
    """Begin and end a test with all parts alive, no fault planted, no process left over."""
    world.revive()
    yield world
    planted = world.unplant()
    world.revive()
    world.check_processes()
    assert not planted, f"the test passed by these fault points without reaching them: {planted}"


@pytest.fixture
async def alice(well: World) -> AsyncIterator[Person]:
    """Give Alice, logged in."""
    from tests.support.person import person

    async with person("alice", well.hub, well.admin_token) as one:
        yield one


@pytest.fixture
async def bob(well: World) -> AsyncIterator[Person]:
    """Give Bob, logged in."""
    from tests.support.person import person

    async with person("bob", well.hub, well.admin_token) as one:
        yield one
