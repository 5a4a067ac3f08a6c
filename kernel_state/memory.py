"""The memory of this very process, by address."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any


class _Buffer(ctypes.Structure):
    """``Py_buffer``, as far as it is needed (its size is that of CPython's ``pybuffer.h``)."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("rest", ctypes.c_ssize_t * 10),
    ]


class _Vector(ctypes.Structure):
    """``struct iovec``."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def address_of(view: Any) -> int:
    """Return where an object's contiguous memory begins, be it read-only or not."""
    buffer = _Buffer()
    get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
    get(ctypes.py_object(view), ctypes.byref(buffer), 0)
    try:
        return buffer.buf or 0
    finally:
        release(ctypes.byref(buffer))


def read(address: int, into: Any) -> None:
    """Fill writable memory with this process's own memory from an address on.

    Parameters
    ----------
    into
        Contiguous writable memory; its length says how much is read.

    Raises
    ------
    OSError
        If some of it is not there any more (``process_vm_readv(2)``), where a plain access
        would end the process.
    """
    view = memoryview(into).cast("B")
    libc, to, length = _libc(), address_of(view), len(view)
    done = 0
    while done < length:
        local, remote = _Vector(to + done, length - done), _Vector(address + done, length - done)
        got = libc.process_vm_readv(os.getpid(), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
        if got <= 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{os.strerror(number)}: memory at {address + done:#x}")
        done += got
