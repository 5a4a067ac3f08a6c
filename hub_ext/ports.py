"""What the reconciler needs of the outside world, and how it is reached over HTTP."""

from __future__ import annotations

from typing import Protocol

import httpx
from devcluster.agent import client as agent_calls
from devcluster.agent.client import AgentClient
from devcluster.agent.netswitch import client as netswitch_calls
from devcluster.core.calls import Call
from devcluster.core.records import (
    CaptureReport,
    Fetch,
    FetchReport,
    KernelHint,
    LeaseReport,
    LeaseRequest,
    Plan,
    RestoreReport,
    Route,
)


class Agent(Protocol):
    """One host's agent. Each call is idempotent; each may raise a ``DevClusterError``."""

    async def ensure(self, request: LeaseRequest) -> LeaseReport:
        """Have the server of a lease running and answering."""
        ...

    async def lease(self, lease: str) -> LeaseReport:
        """Tell how a lease is."""
        ...

    async def warm(self, lease: str, hints: list[KernelHint]) -> None:
        """Start kernels empty."""
        ...

    async def plan(self, lease: str) -> Plan:
        """Tell what a move would carry and lose."""
        ...

    async def wait_idle(self, lease: str, wait_s: float) -> bool:
        """Wait for all kernels to be idle."""
        ...

    async def interrupt(self, lease: str) -> None:
        """Interrupt the cells that run."""
        ...

    async def capture(self, lease: str, capture: str) -> CaptureReport:
        """Save all kernels and freeze the processes."""
        ...

    async def thaw(self, lease: str) -> None:
        """Let frozen processes go on."""
        ...

    async def fetch(self, lease: str, request: Fetch) -> FetchReport:
        """Pull home and capture from another host."""
        ...

    async def restore(self, lease: str, capture: str) -> RestoreReport:
        """Load a capture."""
        ...

    async def remove(self, lease: str) -> None:
        """End all processes of a lease."""
        ...

    async def drop_capture(self, workspace: str, capture: str) -> None:
        """Delete a capture."""
        ...


class Agents(Protocol):
    """All agents, by address."""

    def at(self, url: str) -> Agent:
        """Return the agent at an address."""
        ...


class NetSwitch(Protocol):
    """The Net Switch's control."""

    async def put(self, route: Route) -> None:
        """Have a route in effect."""
        ...


class HttpAgent:
    """An agent behind its HTTP interface."""

    def __init__(self, client: AgentClient) -> None:
        self._client = client

    async def ensure(self, request: LeaseRequest) -> LeaseReport:  # noqa: D102 - see Agent
        return await self._client.send(agent_calls.ensure(request))

    async def lease(self, lease: str) -> LeaseReport:  # noqa: D102
        return await self._client.send(agent_calls.lease(lease))

    async def warm(self, lease: str, hints: list[KernelHint]) -> None:  # noqa: D102
        await self._client.send(agent_calls.warm(lease, hints))

    async def plan(self, lease: str) -> Plan:  # noqa: D102
        return await self._client.send(agent_calls.plan(lease))

    async def wait_idle(self, lease: str, wait_s: float) -> bool:  # noqa: D102
        return await self._client.send(agent_calls.wait_idle(lease, wait_s))

    async def interrupt(self, lease: str) -> None:  # noqa: D102
        await self._client.send(agent_calls.interrupt(lease))

    async def capture(self, lease: str, capture: str) -> CaptureReport:  # noqa: D102
        return await self._client.send(agent_calls.capture(lease, capture))

    async def thaw(self, lease: str) -> None:  # noqa: D102
        await self._client.send(agent_calls.thaw(lease))

    async def fetch(self, lease: str, request: Fetch) -> FetchReport:  # noqa: D102
        return await self._client.send(agent_calls.fetch(lease, request))

    async def restore(self, lease: str, capture: str) -> RestoreReport:  # noqa: D102
        return await self._client.send(agent_calls.restore(lease, capture))

    async def remove(self, lease: str) -> None:  # noqa: D102
        await self._client.send(agent_calls.remove(lease))

    async def drop_capture(self, workspace: str, capture: str) -> None:  # noqa: D102
        await self._client.send(agent_calls.drop_capture(workspace, capture))


class HttpAgents:
    """Keeps one client for each agent's address, so that connections are reused."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._clients: dict[str, AgentClient] = {}

    def at(self, url: str) -> Agent:
        """Return the agent at an address."""
        if url not in self._clients:
            self._clients[url] = AgentClient(url, self._token)
        return HttpAgent(self._clients[url])

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.close()


class HttpNetSwitch:
    """The Net Switch behind its control address."""

    def __init__(
        self, url: str, token: str, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        # The agent's client sends any call; its words for "does not answer" name the address.
        self._client = AgentClient(url, token, transport)

    async def put(self, route: Route) -> None:
        """Have a route in effect."""
        call: Call[Route] = netswitch_calls.put_route(route)
        await self._client.send(call)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
