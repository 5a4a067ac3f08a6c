"""Receives a session in a thread, into memory of its own, while the source is still at work."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import BinaryIO, cast

from ..records import CaptureError
from ..seal import Seal
from .reader import CaptureReader, Content


class Receipt:
    """An open connection to a source.

    Parameters
    ----------
    socket_path
        A unix stream socket that somebody listens on.
    """

    def __init__(self, socket_path: str, seal: Seal | None) -> None:
        self._seal = seal
        self._content: Content | None = None
        self._error: CaptureError | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(socket_path)
        except BaseException:
            self._socket.close()
            raise
        self._thread = threading.Thread(target=self._work, name="devcluster-receive", daemon=True)
        self._thread.start()

    def content(self, timeout_s: float) -> Content:
        """Wait for the end of the capture and return it, once.

        Raises
        ------
        CaptureError
            If it is not whole after so many seconds, or not the one that is meant.
        """
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise CaptureError(f"The capture did not come to its end within {timeout_s:g} s.")
        if self._error is not None:
            raise self._error
        content, self._content = self._content, None
        if content is None:
            raise CaptureError("What was received has been loaded or dropped already.")
        return content

    def close(self) -> None:
        """End the thread and the connection, and free the memory. May be called again."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for bytes
        self._thread.join()
        self._socket.close()
        self._content = None

    def _work(self) -> None:
        try:
            with self._socket.makefile("rb", buffering=0) as stream:
                self._content = CaptureReader(cast(BinaryIO, stream), self._seal).read()
        except CaptureError as error:
            self._error = error
        except (OSError, MemoryError) as error:
            self._error = CaptureError(f"The capture broke off: {type(error).__name__}: {error}")
