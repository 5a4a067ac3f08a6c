"""Waking those who wait for a workspace to change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class Changes:
    """Who waits for which workspace; event-driven, nobody polls."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def tell(self, workspaces: Iterable[str]) -> None:
        """Wake all who wait for these."""
        for workspace in workspaces:
            for event in self._waiting.get(workspace, ()):
                event.set()

    async def wait(self, workspace: str, timeout_s: float) -> bool:
        """Wait for the next change; False if there was none in time."""
        event = asyncio.Event()
        self._waiting.setdefault(workspace, set()).add(event)
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
            return True
        except TimeoutError:
            return False
        finally:
            left = self._waiting[workspace]
            left.discard(event)
            if not left:
                del self._waiting[workspace]
