"""Our own line to one kernel: hears all that it says, and asks it things without a trace.

The line is opened once and kept, since opening sockets and waiting for their
subscription takes longer than saving a small state.
"""

from __future__ import annotations

import ast
import asyncio
import json
from datetime import UTC, datetime
from functools import partial
from typing import Any
from weakref import WeakSet

from devcluster.core.errors import StepFailed, Unavailable
from jupyter_client.session import Session

from .requests import Requests, Route
from .signals import Signal

#: How often the kernel's process is looked at while an answer is due: a dead one sends none.
_ALIVE_S = 1.0
#: How long one try to hear from a new kernel takes. A subscription that reaches the kernel
#: after its answer misses it, so the question is repeated (as jupyter-server's "nudge" does).
_NUDGE_S = 0.5
#: An object that shows as the repr of the answer, however the person has strings displayed;
#: built from what they can hardly have given another meaning, as they may with ``type``.
_ANSWER = (
    "__import__('builtins').type('Answer', (), {{'__repr__': "
    "lambda self, text={}: __import__('builtins').repr(text)}})()"
)


class KernelLink:
    """A line to one kernel of this server.

    Attributes
    ----------
    requests
        What the kernel still owes an answer to.
    info
        The kernel's ``kernel_info_reply``.
    connections
        The browser's connections to this kernel.
    last_asked
        The id of our newest :meth:`ask`.
    last_activity
        When the kernel last did something that was not for us.
    """

    def __init__(self, manager: Any, changed: Signal) -> None:
        self.requests = Requests()
        self.info: dict[str, Any] = {}
        self.connections: WeakSet[Any] = WeakSet()
        self.last_asked = ""
        self.last_activity: datetime = manager.last_activity
        self._manager = manager
        self._changed = changed
        self._session = Session(config=manager.session.config, key=manager.session.key)
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._fences: dict[str, tuple[Route, list[str]]] = {}
        self._heard = False
        self._shell: Any = None
        self._iopub: Any = None

    # --- the line itself ---------------------------------------------------------

    async def open(self, timeout_s: float) -> None:
        """Connect, and return once the kernel's messages are heard.

        Raises
        ------
        Unavailable
            If the kernel's process has ended, or it cannot be heard within ``timeout_s`` seconds.
        """
        if self._manager.execution_state == "busy":
            self.requests.found_busy()
        self._connect()
        control = self._manager.connect_control()
        answered = asyncio.get_running_loop().create_future()

        def hear(parts: list[bytes]) -> None:
            message = self._read(parts)
            if message["msg_type"] == "kernel_info_reply" and not answered.done():
                self.info = message["content"]
                answered.set_result(None)
                self._changed.fire()

        control.on_recv(hear)
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        try:
            # Shell too, for kernels that give their info only there; once, as it is never lost.
            answered_on_shell = loop.create_future()
            self._answers[self._send(self._shell, "kernel_info_request", {})] = answered_on_shell
            while loop.time() < end:
                self._send(control, "kernel_info_request", {})
                await self._changed.until(
                    lambda: self._heard and (answered.done() or answered_on_shell.done()), _NUDGE_S
                )
                if self._heard and (answered.done() or answered_on_shell.done()):
                    self.info = self.info or answered_on_shell.result()
                    return
                await self._check_alive()
        finally:
            self._answers.clear()
            control.close()
        raise Unavailable(f"The kernel cannot be heard: nothing came within {timeout_s:g} s.")

    def close(self, why: str = "was shut down") -> None:
        """Disconnect; whoever waits for an answer gets an error."""
        for stream in (self._shell, self._iopub):
            if stream is not None and not stream.closed():
                stream.close()
        answers, self._answers = self._answers, {}
        for future in answers.values():
            if not future.done():
                future.set_exception(Unavailable(f"The kernel {why} before it answered."))

    def restarted(self) -> None:
        """Take note that the kernel's process is a new one, perhaps at new ports."""
        self.close("was restarted")
        self.requests.restarted()
        self._fences.clear()
        self._connect()
        self._changed.fire()

    def _connect(self) -> None:
        self._shell = self._manager.connect_shell()
        self._shell.on_recv(self._on_shell)
        self._iopub = self._manager.connect_iopub()
        self._iopub.on_recv(self._on_iopub)

    # --- asking ------------------------------------------------------------------

    @property
    def is_ipython(self) -> bool:
        """Whether it is a kernel whose state can be moved."""
        return self.info.get("implementation") == "ipython"

    async def ask(self, expression: str, timeout_s: float | None = None) -> Any:
        """Evaluate an expression in the kernel that gives JSON as a ``str``.

        Leaves no trace in namespace, history or execution count. Waits behind
        whatever the kernel is doing.

        Parameters
        ----------
        timeout_s
            Seconds until giving up, None for as long as the kernel's process lives.

        Raises
        ------
        StepFailed
            If the expression raised; with the kernel's words.
        Unavailable
            If no answer came in time, or the kernel's process ended.
        """
        try:
            async with asyncio.timeout(timeout_s):
                reply = await self._execute(expression)
                while reply.get("status") == "aborted":
                    # After a failed cell ipykernel drops what is queued: take another turn.
                    reply = await self._execute(expression)
        except TimeoutError as error:
            raise Unavailable(f"The kernel did not answer within {timeout_s:g} s.") from error
        answer = reply.get("user_expressions", {}).get("answer") or reply
        if answer.get("status") != "ok":
            why = f"{answer.get('ename', 'Error')}: {answer.get('evalue', reply)}"
            raise StepFailed(why, traceback=answer.get("traceback", []))
        try:
            return json.loads(ast.literal_eval(answer["data"]["text/plain"]))
        except (KeyError, ValueError, SyntaxError) as error:
            raise StepFailed(f"The kernel gave an answer that is none: {answer!r:.300}") from error

    async def settle(self, timeout_s: float) -> None:
        """Find out which waiting requests have in truth had their turn.

        Some are handled without a word (see :meth:`Requests.ended`). A question that
        is sent behind them, on the same socket, is answered after them.
        """
        asked = {route for route, _ in self._fences.values()}
        for route, waiting in self.requests.silent().items():
            if route not in asked:
                stream: Any = route[0]
                socket = self._shell if stream.closed() else stream
                fence = self._send(socket, "kernel_info_request", {}, route[1])
                self._fences[fence] = (route, waiting)
        if self._fences:
            await self._changed.until(lambda: not self._fences, timeout_s)

    async def let_output_leave(self, timeout_s: float) -> None:
        """Wait until all that the kernel said before its answer to us has gone to browsers.

        Raises
        ------
        TimeoutError
            If a browser does not take it within ``timeout_s`` seconds.
        """
        for connection in list(self.connections):
            has_passed = partial(connection.has_passed, self.last_asked)
            if not await self._changed.until(has_passed, timeout_s):
                raise TimeoutError
            await connection.flush(timeout_s)

    async def _execute(self, expression: str) -> dict[str, Any]:
        request = self._send(
            self._shell,
            "execute_request",
            {
                "code": "",
                "silent": True,
                "store_history": False,
                "user_expressions": {"answer": _ANSWER.format(expression)},
                "allow_stdin": False,
                "stop_on_error": False,
            },
        )
        self.last_asked = request
        future = asyncio.get_running_loop().create_future()
        self._answers[request] = future
        try:
            while True:
                await asyncio.wait({future}, timeout=_ALIVE_S)
                if future.done():
                    reply: dict[str, Any] = future.result()
                    return reply
                await self._check_alive()
        finally:
            self._answers.pop(request, None)

    async def _check_alive(self) -> None:
        if not await self._manager.is_alive():
            raise Unavailable("The kernel's process has ended.")

    def _send(
        self, stream: Any, kind: str, content: dict[str, Any], subshell: str | None = None
    ) -> str:
        message = self._session.msg(kind, content)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self._session.send(stream, message)
        return str(message["header"]["msg_id"])

    # --- hearing -----------------------------------------------------------------

    def passing(self, header: dict[str, Any], stream: Any) -> None:
        """Note a request of the browser just before it is passed on to the kernel."""
        route: Route = (stream, header.get("subshell_id"))
        self.requests.passing(header["msg_id"], header["msg_type"], route)

    def owns(self, parent_header: dict[str, Any]) -> bool:
        """Whether a message of the kernel answers something that we asked."""
        return bool(parent_header.get("session") == self._session.session)

    def connection_moved(self) -> None:
        """Take note that a connection has passed on what it had to the browser."""
        self._changed.fire()

    def _read(self, parts: list[bytes]) -> dict[str, Any]:
        _, rest = self._session.feed_identities(parts)
        message: dict[str, Any] = self._session.deserialize(rest)
        return message

    def _on_shell(self, parts: list[bytes]) -> None:
        message = self._read(parts)
        future = self._answers.get(message["parent_header"].get("msg_id", ""))
        if future is not None and not future.done():
            future.set_result(message["content"])
            self._changed.fire()

    def _on_iopub(self, parts: list[bytes]) -> None:
        self._heard = True
        # Outputs may be large and many: only the content of a status is unpacked.
        _, rest = self._session.feed_identities(parts)
        unpack = self._session.unpack
        parent = unpack(rest[2])
        if not self.owns(parent):
            self.last_activity = datetime.now(UTC)
        if unpack(rest[1])["msg_type"] == "status":
            self._on_status(parent, unpack(rest[4])["execution_state"])
        self._changed.fire()

    def _on_status(self, parent: dict[str, Any], state: str) -> None:
        request, kind = parent.get("msg_id", ""), parent.get("msg_type", "")
        if self.owns(parent):
            if state == "idle" and request in self._fences:
                self.requests.forget(self._fences.pop(request)[1])
        elif not request:
            return  # "starting", which belongs to no request
        elif state == "busy":
            self.requests.began(request, kind)
        elif state == "idle":
            self.requests.ended(request, kind)
