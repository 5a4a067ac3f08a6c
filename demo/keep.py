"""Keep a command running: ``python keep.py PIDFILE COMMAND...``.

What systemd does for the parts of a real deployment. JupyterHub starts a managed
service again too, but looks only every 30 seconds, and leaves it behind where the hub
itself is killed. This one starts it again at once, and ends with its parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_GRACE_S = 5.0
_PAUSE_S = 0.2


def die_with_parent(number: int) -> None:
    """Have the kernel send this process a signal when its parent dies (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)


def main() -> None:
    """Run until told to end."""
    pid_file, command = Path(sys.argv[1]), sys.argv[2:]
    parent = os.getppid()
    die_with_parent(signal.SIGTERM)
    over = threading.Event()
    child: subprocess.Popen[bytes] | None = None

    def end(_number: int, _frame: object) -> None:
        over.set()
        if child is not None:
            child.terminate()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    if os.getppid() != parent:
        return  # it died before the kernel was asked to watch it
    while not over.is_set():
        child = subprocess.Popen(command, preexec_fn=lambda: die_with_parent(signal.SIGKILL))
        fresh = pid_file.with_suffix(".new")
        fresh.write_text(str(child.pid))
        fresh.replace(pid_file)
        if over.is_set():
            child.terminate()  # told to end while it was being started
        while child.poll() is None:
            try:
                child.wait(_GRACE_S if over.is_set() else None)
            except subprocess.TimeoutExpired:
                child.kill()
        over.wait(_PAUSE_S)


if __name__ == "__main__":
    main()
