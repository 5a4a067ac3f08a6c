"""The browser's websocket to a kernel, with each request written down as it passes."""

from __future__ import annotations

import asyncio
import json
import struct
from collections import deque
from typing import Any

from jupyter_server.services.kernels.connection.base import deserialize_binary_message
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

from .kernel_link import KernelLink

#: Where the application's settings hold our :class:`~devcluster.server_ext.kernels.Kernels`.
SETTING = "devcluster_kernels"

_V1 = "v1.kernel.websocket.jupyter.org"


class TrackedConnection(ZMQChannelsWebsocketConnection):  # type: ignore[misc]
    """Tells our line to the kernel what is passed on to it, and hides our own questions."""

    _link: KernelLink | None = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._own_idles: deque[str] = deque(maxlen=32)

    async def prepare(self) -> None:
        """Open our line before the first request can pass."""
        await super().prepare()
        kernels = self.websocket_handler.settings[SETTING]
        self._link = await kernels.link(self.kernel_id)
        self._link.connections.add(self)

    def disconnect(self) -> None:
        """Close; what was passed on stays written down."""
        if self._link is not None:
            self._link.connections.discard(self)
        super().disconnect()

    def handle_incoming_message(self, incoming_msg: str | bytes) -> None:
        """Write a request down, then pass it on."""
        if self._link is not None and self.channels:
            header = _shell_header(incoming_msg, self.subprotocol == _V1)
            allowed = self.multi_kernel_manager.allowed_message_types
            if header is not None and (not allowed or header["msg_type"] in allowed):
                self._link.passing(header, self.channels["shell"])
        super().handle_incoming_message(incoming_msg)

    def handle_outgoing_message(self, stream: Any, outgoing_msg: list[bytes]) -> None:
        """Pass a message on, unless it is an answer to a question of ours."""
        link = self._link
        if link is not None:
            _, parts = self.session.feed_identities(outgoing_msg)
            parent = self.session.unpack(parts[2])
            if link.owns(parent):
                is_status = self.session.unpack(parts[1])["msg_type"] == "status"
                if is_status and self.session.unpack(parts[4])["execution_state"] == "idle":
                    self._own_idles.append(parent["msg_id"])
                    link.connection_moved()
                return
        super().handle_outgoing_message(stream, outgoing_msg)

    def has_passed(self, own_request: str) -> bool:
        """Whether all that the kernel said before a question of ours went to the browser."""
        return own_request in self._own_idles

    async def flush(self, timeout_s: float) -> None:
        """Wait until what was passed on has left this process."""
        websocket = self.websocket_handler.ws_connection
        if websocket is not None and not websocket.stream.closed():
            # An empty write is done when everything before it is.
            await asyncio.wait_for(websocket.stream.write(b""), timeout_s)


def _shell_header(message: str | bytes, is_v1: bool) -> dict[str, Any] | None:
    """Return the header of a request for the shell channel; None if it is no such request."""
    try:
        if is_v1 and isinstance(message, bytes):
            # Layout: JupyterLab's and jupyter-server's protocol v1: a count and offsets, each
            # 8 bytes little-endian, then channel, header, ... Buffers are left alone.
            at = [int.from_bytes(message[8 * i : 8 * i + 8], "little") for i in range(1, 4)]
            channel: str | None = message[at[0] : at[1]].decode()
            header = json.loads(message[at[1] : at[2]])
        else:
            whole = (
                deserialize_binary_message(message)
                if isinstance(message, bytes)
                else json.loads(message)
            )
            channel, header = whole.get("channel"), whole["header"]
        # jupyter-server takes a message without a channel for one to the shell.
        is_request = channel in ("shell", None) and {"msg_id", "msg_type"} <= header.keys()
        return header if is_request else None
    except (ValueError, KeyError, TypeError, AttributeError, struct.error):
        return None  # jupyter-server says what it thinks of it
