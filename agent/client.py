"""How the manager (and another agent) talks to an agent.

Every call is idempotent by lease, capture or workspace, so it may be repeated
after a lost answer.
"""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

import httpx
from devcluster.core.calls import Call, call, part
from devcluster.core.errors import Unavailable
from devcluster.core.records import (
    CaptureReport,
    Fetch,
    FetchReport,
    HostReport,
    KernelHint,
    LeaseReport,
    LeaseRequest,
    Plan,
    RestoreReport,
    WarmRequest,
)
from devcluster.core.trust import trust

T = TypeVar("T")

#: Starting a JupyterLab on a busy two-core machine takes seconds; a move of many GiB, minutes.
_START_S, _MOVE_S = 120.0, 3600.0


def host() -> Call[HostReport]:
    """Ask for the host's full account."""
    return call("GET", "/v1/host", HostReport)


def ensure(request: LeaseRequest) -> Call[LeaseReport]:
    """Have the server of a lease running; answers once it responds to requests."""
    return call("PUT", f"/v1/leases/{part(request.lease)}", LeaseReport, request, _START_S)


def lease(lease_id: str) -> Call[LeaseReport]:
    """Ask for one lease."""
    return call("GET", f"/v1/leases/{part(lease_id)}", LeaseReport)


def warm(lease_id: str, hints: list[KernelHint]) -> Call[None]:
    """Start kernels that appeared after ``ensure``."""
    return call(
        "POST", f"/v1/leases/{part(lease_id)}/warm", None, WarmRequest(kernels=hints), _START_S
    )


def plan(lease_id: str) -> Call[Plan]:
    """Ask what a move would carry, rebuild and lose. Changes nothing."""
    return call("POST", f"/v1/leases/{part(lease_id)}/plan", Plan, None, 60.0)


def wait_idle(lease_id: str, wait_s: float) -> Call[bool]:
    """Wait up to ``wait_s`` seconds for every kernel to be idle with nothing queued."""
    path = f"/v1/leases/{part(lease_id)}/idle?wait={wait_s:g}"
    return call("GET", path, bool, None, wait_s + 10)


def interrupt(lease_id: str) -> Call[None]:
    """Interrupt the running cells of all busy kernels."""
    return call("POST", f"/v1/leases/{part(lease_id)}/interrupt", None, None, 30.0)


def capture(lease_id: str, capture_id: str) -> Call[CaptureReport]:
    """Save all kernels, then freeze all processes of the lease. Raises ``Busy`` if it cannot."""
    path = f"/v1/leases/{part(lease_id)}/captures/{part(capture_id)}"
    return call("PUT", path, CaptureReport, None, _MOVE_S)


def thaw(lease_id: str) -> Call[None]:
    """Let a frozen lease go on as if nothing had happened. Nothing to do if it runs."""
    return call("POST", f"/v1/leases/{part(lease_id)}/thaw", None, None, 30.0)


def fetch(lease_id: str, request: Fetch) -> Call[FetchReport]:
    """Pull home and capture from the host that has them; verified before it answers."""
    return call("POST", f"/v1/leases/{part(lease_id)}/fetch", FetchReport, request, _MOVE_S)


def restore(lease_id: str, capture_id: str) -> Call[RestoreReport]:
    """Load a fetched capture into the lease's server: kernels first, then sessions."""
    path = f"/v1/leases/{part(lease_id)}/restore/{part(capture_id)}"
    return call("POST", path, RestoreReport, None, _MOVE_S)


def remove(lease_id: str) -> Call[None]:
    """End all processes of a lease; home and captures stay on the host. Done if unknown."""
    return call("DELETE", f"/v1/leases/{part(lease_id)}", None, None, 60.0)


def drop_capture(workspace: str, capture_id: str) -> Call[None]:
    """Delete a capture that nobody needs any more."""
    return call("DELETE", f"/v1/captures/{part(workspace)}/{part(capture_id)}", None)


class AgentClient:
    """Sends calls to one agent.

    Raises
    ------
    devcluster.core.errors.DevClusterError
        What the agent answered, or ``Unavailable`` where it did not: then nothing
        is known about the host, least of all that a server stopped.
    """

    def __init__(
        self, url: str, token: str, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            transport=transport,
            verify=trust(httpx.URL(url).scheme),
        )

    async def send(self, call: Call[T]) -> T:
        """Send one call and return its value."""
        try:
            answer = await self._http.request(
                call.method,
                call.path,
                content=call.body,
                headers={"Content-Type": "application/json"},
                timeout=call.timeout_s,
            )
        except httpx.HTTPError as error:
            raise Unavailable(
                f"The agent at {self._http.base_url} does not answer {call.method} "
                f"{call.path}: {error or type(error).__name__}"
            ) from error
        return call.answer(answer.status_code, answer.content)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AgentClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
