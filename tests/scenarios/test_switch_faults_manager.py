"""A switch that breaks at any step ends whole: on the source or on the target, never both,
never neither, with every variable and file, and the person is told why.

The faults are planted at the recorded steps, so nothing here hangs on timing.
Here: the manager.
"""

from __future__ import annotations

import pytest

from tests.support.person import Person
from tests.support.work import break_it
from tests.support.world import World

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]

STEPS = ["prepare", "check", "park", "capture", "send", "restore", "commit", "reroute", "release"]
#: tests/hub_ext/test_fault_matrix.py has all of them, with fakes.
FAULTS = [
    *((f"manager.{step}.recorded", "kill") for step in STEPS),
    *((f"manager.{step}.acted", "kill") for step in ("park", "capture", "restore", "commit")),
    *((f"manager.{step}.recorded", "raise planted") for step in ("prepare", "park", "restore")),
]


@pytest.mark.parametrize(("point", "action"), FAULTS)
async def test_the_manager_breaks_at_a_step(
    world: World, alice: Person, point: str, action: str
) -> None:
    status = await break_it(world, alice, point, action)
    if action == "kill":
        assert status == "done", "a restart of the manager alone should not fail a switch"
