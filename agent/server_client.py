"""How the agent talks to the server extension of a lease on its own host."""

from __future__ import annotations

from typing import TypeVar

import httpx
from devcluster.core.calls import Call, call
from devcluster.core.errors import Unavailable
from devcluster.core.records import (
    CaptureReport,
    KernelHint,
    Plan,
    Record,
    RestoreReport,
    WarmRequest,
)
from devcluster.core.trust import trust
from pydantic import ConfigDict

T = TypeVar("T")

_MOVE_S = 3600.0


class Health(Record):
    """Whose server answers, and how many kernels it has."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    lease: str
    kernels: int = 0


class AtPath(Record):
    """Where a capture is, or goes to."""

    path: str
    capture: str


def health() -> Call[Health]:
    """Ask whether it is up, and which lease it serves."""
    return call("GET", "health", Health, None, 2.0)


def warm(kernels: list[KernelHint]) -> Call[None]:
    """Start these kernels empty."""
    return call("POST", "warm", None, WarmRequest(kernels=kernels), 110.0)


def plan() -> Call[Plan]:
    """Ask what a move would carry, rebuild and lose."""
    return call("POST", "plan", Plan, None, 58.0)


def idle(wait_s: float) -> Call[bool]:
    """Wait for every kernel to be idle."""
    return call("GET", f"idle?wait={wait_s:g}", bool, None, wait_s + 8)


def interrupt() -> Call[None]:
    """Interrupt the running cells."""
    return call("POST", "interrupt", None, None, 25.0)


def capture(path: str, capture_id: str) -> Call[CaptureReport]:
    """Save all kernels into a folder."""
    body = AtPath(path=path, capture=capture_id)
    return call("POST", "capture", CaptureReport, body, _MOVE_S)


def resume() -> Call[None]:
    """Go on after a capture that came to nothing."""
    return call("POST", "resume", None, None, 25.0)


def restore(path: str, capture_id: str) -> Call[RestoreReport]:
    """Load kernels, then sessions, from a folder."""
    body = AtPath(path=path, capture=capture_id)
    return call("POST", "restore", RestoreReport, body, _MOVE_S)


class ServerClient:
    """Sends calls to the servers of this host, over one pool of connections."""

    def __init__(self) -> None:
        self._http = httpx.AsyncClient(trust_env=False, verify=trust("http"))

    async def send(self, base: str, secret: str, call: Call[T]) -> T:
        """Send one call to the server at ``base`` (with its prefix and a closing slash)."""
        try:
            answer = await self._http.request(
                call.method,
                f"{base}devcluster/control/{call.path}",
                content=call.body,
                headers={"X-DevCluster-Control": secret, "Content-Type": "application/json"},
                timeout=call.timeout_s,
            )
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise Unavailable(
                f"The workspace's server does not answer {call.path}: {why}"
            ) from error
        return call.answer(answer.status_code, answer.content)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()
