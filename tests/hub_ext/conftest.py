from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from devcluster.hub_ext.store.consistency import check_consistency

from tests.hub_ext.rig import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """Give a manager over fakes; what must always hold is checked at the end."""
    rig = Rig(tmp_path)
    yield rig
    assert check_consistency(rig.store) == []
    await rig.close()
