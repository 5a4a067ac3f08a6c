"""Whatever is asked in whatever order, with crashes and silent hosts: nothing is lost."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from devcluster.core.errors import Conflict
from devcluster.core.lifecycle import Step
from devcluster.hub_ext.store.consistency import check_consistency
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.hub_ext.rig import Rig

USERS = st.sampled_from(["alice", "bob"])
FLAVORS = st.sampled_from(["cpu", "1xA100", "2xA100", "1xV100"])


class Workspaces(RuleBasedStateMachine):
    """Two people, three hosts, one manager that may crash at any step."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="devcluster-stateful-"))
        self.rig = self.loop.run_until_complete(self._boot())

    async def _boot(self) -> Rig:
        rig = Rig(self.folder)
        await rig.running("alice")
        await rig.running("bob")
        return rig

    def _try(self, wish: Callable[[], object], seconds: float) -> None:
        async def do() -> None:
            with suppress(Conflict):  # anything else would be a defect
                wish()
            await self.rig.settle(seconds, beats=False)

        self.loop.run_until_complete(do())

    @rule(user=USERS, flavor=FLAVORS, seconds=st.sampled_from([0, 1]))
    def switch(self, user: str, flavor: str, seconds: float) -> None:
        self._try(lambda: self.rig.switch(user, flavor), seconds)

    @rule(user=USERS, seconds=st.sampled_from([0, 1]))
    def deflate(self, user: str, seconds: float) -> None:
        self._try(lambda: self.rig.deflate(user), seconds)

    @rule(user=USERS, flavor=FLAVORS)
    def inflate(self, user: str, flavor: str) -> None:
        self._try(lambda: self.rig.inflate(user, flavor), 1)

    @rule(user=USERS)
    def cancel(self, user: str) -> None:
        self._try(lambda: self.rig.wishes.cancel(f"{user}/default", user), 1)

    @rule(step=st.sampled_from(list(Step)), when=st.sampled_from(["recorded", "acted"]))
    def plant_a_crash(self, step: Step, when: str) -> None:
        self.rig.crash_at = f"manager.{step}.{when}"

    @rule()
    def restart(self) -> None:
        self.loop.run_until_complete(self.rig.restart())

    @rule(host=st.sampled_from(["cpu-1", "v100-1", "a100-1"]))
    def lose_a_host(self, host: str) -> None:
        self.rig.world.hosts[host].down = True

    @rule()
    def all_is_well_in_the_end(self) -> None:
        """Let every host answer: then each workspace is whole, where it should be."""

        async def do() -> None:
            for host in self.rig.world.hosts.values():
                host.down = False
            self.rig.crash_at = ""
            self.rig.heartbeat()
            await self.rig.settle(25)
            self.rig.check()
            for user in ("alice", "bob"):
                state = self.rig.view(user).state
                if state == "running":
                    self.rig.check_whole(user)
                else:
                    assert state in ("deflated", "inflating"), self.rig.view(user)

        self.loop.run_until_complete(do())

    @invariant()
    def the_records_agree(self) -> None:
        assert check_consistency(self.rig.store) == []

    def teardown(self) -> None:
        self.all_is_well_in_the_end()
        self.loop.run_until_complete(self.rig.close())
        self.loop.close()
        shutil.rmtree(self.folder)


Workspaces.TestCase.settings = settings(
    max_examples=8,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
TestWorkspaces = Workspaces.TestCase
