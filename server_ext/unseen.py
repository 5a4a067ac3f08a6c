"""Messages for a browser that was away when the workspace moved.

jupyter-server keeps in memory what a kernel says while no browser is connected, and
plays it back when the same browser session returns. A move must take that along, or
the outputs of a cell that ended meanwhile are lost and the cell stays ``[*]``.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from .captured import Unseen
from .kernel_link import KernelLink

_CHANNELS = ("iopub", "shell", "control", "stdin")


def take_unseen(manager: Any, kernel_id: str, link: KernelLink) -> Unseen | None:
    """Copy what is kept for a browser; it stays kept here too.

    Parameters
    ----------
    manager
        The server's ``MappingKernelManager``.
    """
    kept = manager._kernel_buffers.get(kernel_id)  # there is no public way to look
    if not kept:
        return None
    session = manager.get_kernel(kernel_id).session
    messages = []
    for channel, parts in kept["buffer"]:
        _, frames = session.feed_identities([bytes(part) for part in parts])
        if not link.owns(session.unpack(frames[2])):
            # The signature, first, is by the kernel's own key: it is made anew on the other side.
            messages.append((channel, [b64encode(frame).decode() for frame in frames[1:]]))
    return Unseen(session_key=kept["session_key"], messages=messages) if messages else None


def give_unseen(manager: Any, kernel_id: str, unseen: Unseen) -> None:
    """Keep messages for a browser, as if its kernel here had said them."""
    kernel = manager.get_kernel(kernel_id)
    identity = unseen.session_key.partition(":")[2].encode()
    streams = {}
    for channel in _CHANNELS:
        stream = getattr(kernel, "connect_" + channel)(identity=identity)
        stream.channel = channel  # jupyter-server's connections know their streams by it
        streams[channel] = stream
    manager.start_buffering(kernel_id, unseen.session_key, streams)
    delimiter = b"<IDS|MSG>"
    for channel, encoded in unseen.messages:
        frames = [b64decode(frame) for frame in encoded]
        parts = [delimiter, kernel.session.sign(frames[:4]), *frames]
        manager._kernel_buffers[kernel_id]["buffer"].append((channel, parts))
