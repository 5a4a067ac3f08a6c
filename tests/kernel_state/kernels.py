"""Real IPython kernels for tests: run cells, ask silently, kill."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from devcluster.kernel_state.remote import decode
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

REMOTE = "__import__('devcluster.kernel_state.remote', fromlist=['x'])"


class Kernel:
    """A kernel in a process of its own, with ``home`` as its folder and profile."""

    def __init__(self, home: Path) -> None:
        self.manager = KernelManager(kernel_name="python3")
        env = {**os.environ, "IPYTHONDIR": str(home / ".ipython"), "HOME": str(home)}
        self.manager.start_kernel(cwd=str(home), env=env)
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code: str, timeout: float = 60, store_history: bool = True) -> None:
        """Run a cell; raise if it fails."""
        reply = self.client.execute(code, reply=True, timeout=timeout, store_history=store_history)
        if reply["content"]["status"] != "ok":
            raise AssertionError("\n".join(reply["content"].get("traceback", ["aborted"])))

    def ask(self, expression: str, timeout: float = 60) -> Any:
        """Evaluate an expression that returns JSON, silently, as the server extension does."""
        reply = self.client.execute(
            "",
            silent=True,
            store_history=False,
            user_expressions={"answer": expression},
            reply=True,
            timeout=timeout,
        )
        return decode(reply["content"], "answer")

    def value(self, expression: str) -> Any:
        """Evaluate an expression silently and return its JSON value."""
        return self.ask(f"__import__('json').dumps({expression})")

    def remote(self, call: str) -> Any:
        """Call a function of ``kernel_state.remote``."""
        return self.ask(f"{REMOTE}.{call}")

    def kill(self) -> None:
        """End the kernel as a power cut would."""
        pid = self.manager.provisioner.pid
        os.kill(pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """End the kernel if it runs, and free what the client holds."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
