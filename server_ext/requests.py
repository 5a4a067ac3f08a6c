"""Which requests a kernel still owes an answer to. Pure bookkeeping, no I/O.

A cell that the browser sent may wait in a socket, or in the kernel's queue, long
before the kernel says that it is busy. It must not be forgotten by a capture, so
each request is written down before it is passed on, and crossed out only when the
kernel has said ``idle`` for it, whatever became of the browser's socket meanwhile.
"""

from __future__ import annotations

from collections.abc import Hashable

#: Requests on the control channel: they run beside cells, and change none of their state.
CONTROL_TYPES = frozenset(
    {
        "abort_request",
        "clear_request",
        "create_subshell_request",
        "debug_request",
        "delete_subshell_request",
        "interrupt_request",
        "list_subshell_request",
        "shutdown_request",
        "usage_request",
    }
)

#: A kernel answers the requests of one route in the order in which they were sent: a route
#: is a socket, and a subshell of the kernel (None for the main one).
Route = tuple[Hashable, str | None]

_BEFORE_US = "before we looked"


class Requests:
    """The requests of one kernel that are waiting or running.

    Attributes
    ----------
    passed_on
        How many requests were ever passed on, those that change nothing left out; so that
        one knows whether any came since.
    """

    def __init__(self) -> None:
        self.passed_on = 0
        self._waiting: dict[str, Route] = {}
        self._running: set[str] = set()

    @property
    def busy(self) -> bool:
        """Whether anything is waiting or running."""
        return bool(self._waiting or self._running)

    def found_busy(self) -> None:
        """Note that a request was running already when we began to look."""
        self._running.add(_BEFORE_US)

    def passing(self, request: str, kind: str, route: Route) -> None:
        """Note a request just before it is passed on to the kernel."""
        self._waiting[request] = route
        self._count(kind)

    def began(self, request: str, kind: str) -> None:
        """Note that the kernel says ``busy`` for a request, be it of ours to pass on or not."""
        if kind not in CONTROL_TYPES:
            if request not in self._waiting:
                self._count(kind)
            self._running.add(request)

    def ended(self, request: str, kind: str) -> None:
        """Note that the kernel says ``idle`` for a request.

        Whatever was sent before it on the same route has had its turn too, even if
        the kernel said nothing of it: comm messages that arrive during an
        asynchronous cell are handled without a word (``Kernel.shell_main`` of
        ipykernel 7).
        """
        if kind in CONTROL_TYPES:
            return
        self._running -= {request, _BEFORE_US}
        route = self._waiting.get(request)
        if route is not None:
            self.forget(self._up_to(request, route))

    def silent(self) -> dict[Route, list[str]]:
        """Return what is waiting though nothing runs, by route: it may have had its turn."""
        routes: dict[Route, list[str]] = {}
        if not self._running:
            for request, route in self._waiting.items():
                routes.setdefault(route, []).append(request)
        return routes

    def forget(self, requests: list[str]) -> None:
        """Cross out requests that are known to have had their turn."""
        for request in requests:
            self._waiting.pop(request, None)

    def restarted(self) -> None:
        """Note that the kernel's process is a new one: what it was asked is gone."""
        self._waiting.clear()
        self._running.clear()

    def _count(self, kind: str) -> None:
        # Each new websocket asks for the kernel's info; that changes nothing in the kernel.
        if kind != "kernel_info_request":
            self.passed_on += 1

    def _up_to(self, last: str, route: Route) -> list[str]:
        earlier = []
        for request, its_route in self._waiting.items():
            if its_route == route:
                earlier.append(request)
            if request == last:
                break
        return earlier
