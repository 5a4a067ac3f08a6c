"""What hardware this host has: declared in the hosts file, or asked of the NVIDIA driver."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import psutil
from devcluster.core.resources import Gpu

from .durable import read_json, write_json
from .hosts_file import DeclaredHost


class Inventory:
    """The host's CPUs, memory and GPUs, and what is wrong with them.

    Parameters
    ----------
    declared
        The host's entry of the hosts file; None takes what the machine has.
    memory_file
        Where the GPUs once seen are remembered, so that a lost card is noticed.
    deadline_s
        How long the driver may take to answer.
    """

    def __init__(
        self,
        host: str,
        declared: DeclaredHost | None,
        memory_file: Path,
        deadline_s: float = 10.0,
        probe_command: list[str] | None = None,
    ) -> None:
        self.cpus = declared.cpus if declared else float(os.cpu_count() or 1)
        self.memory = declared.memory if declared else int(psutil.virtual_memory().total)
        self.gpus: list[Gpu] = declared.declared_gpus(host) if declared else []
        self.trouble = ""
        #: Whether there is a driver that may be asked again.
        self.probes = declared is None or declared.gpus == "auto"
        self._memory_file = memory_file
        self._deadline_s = deadline_s
        self._command = probe_command or [sys.executable, "-m", "devcluster.agent.nvml_probe"]
        self._stuck: asyncio.subprocess.Process | None = None
        self._stuck_since = 0.0

    def known(self, uuid: str) -> bool:
        """Tell whether the host has this GPU."""
        return any(gpu.uuid == uuid for gpu in self.gpus)

    async def refresh(self) -> None:
        """Ask the driver, within the deadline; at most one stuck question exists."""
        if not self.probes:
            return
        if self._stuck is not None:
            if self._stuck.returncode is None:
                self._say_stuck()
                return
            self._stuck = None
        process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), self._deadline_s)
        except TimeoutError:
            process.kill()  # no use if it is blocked in the kernel, so it is not waited for
            self._stuck, self._stuck_since = process, time.time()
            self._say_stuck()
            return
        try:
            found = json.loads(output)
            self.gpus = [Gpu.model_validate(gpu) for gpu in found["gpus"]]
        except (ValueError, KeyError, TypeError):
            self.trouble = (
                f"Asking the NVIDIA driver ended with exit code {process.returncode}; "
                "the GPUs last seen are kept, and no new work is taken."
            )
            return
        self.probes = bool(found["driver"])
        self.trouble = " ".join(filter(None, [str(found["trouble"]), self._missing()]))

    def _say_stuck(self) -> None:
        since = time.strftime("%H:%M:%S", time.localtime(self._stuck_since))
        self.trouble = (
            f"The NVIDIA driver has not answered since {since}. What runs goes on; look at "
            "dmesg for Xid messages and reboot the host when it is empty."
        )

    def _missing(self) -> str:
        """Compare with the GPUs once seen: indices shift when a card is lost, UUIDs do not."""
        once = read_json(self._memory_file)
        before = set(once) if isinstance(once, list) else set()
        now = {gpu.uuid for gpu in self.gpus}
        if now - before:
            write_json(self._memory_file, sorted(before | now))
        lost = sorted(before - now)
        if not lost:
            return ""
        return (
            f"GPU {', '.join(lost)} is no longer there. Reboot the host; if the card was taken "
            f"out on purpose, delete {self._memory_file}."
        )
