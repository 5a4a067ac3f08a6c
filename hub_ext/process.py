"""Living and dying as a service of the hub."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import signal
import socket

from devcluster.core.errors import BadRequest
from tornado.netutil import bind_sockets

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent() -> None:
    """Have the kernel end this process when the hub that started it ends, however it does.

    By SIGKILL: recovery at the next start is the normal path, and a manager without
    its hub would keep the port from its successor.
    """
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it ended between the lines above
        os.kill(os.getpid(), signal.SIGKILL)


async def bind_patiently(host: str, port: int, patience_s: float = 10.0) -> list[socket.socket]:
    """Bind a port; wait for a predecessor that is just ending.

    Raises
    ------
    BadRequest
        If somebody else keeps it.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + patience_s
    while True:
        try:
            return list(bind_sockets(port, host))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise BadRequest(f"Cannot listen at {host}:{port}: {error.strerror}.") from error
            if loop.time() >= end:
                raise BadRequest(
                    f"Port {port} of {host} is in use by another program. Give the service "
                    "another url in c.JupyterHub.services."
                ) from error
        await asyncio.sleep(0.1)
