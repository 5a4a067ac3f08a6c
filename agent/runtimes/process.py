"""The process runtime: a workspace is what runs below its launcher. No isolation between users.

It needs no container engine and no root; where it may, it gives each workspace a mount
namespace of its own and limits on CPU and memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from devcluster.core.errors import StepFailed

from ..durable import read_json, write_json
from . import cgroups, launcher, tree
from .base import ServerSpec, Sight
from .place import Places
from .tree import Identity

_START_S = 15.0
_LOOK_S = 0.01
#: In a lease's folder from before the freeze until after the thaw.
_LEFT_ALONE = "left-alone.json"


class ProcessRuntime:
    """Runs servers as plain processes.

    Parameters
    ----------
    folder
        Where launchers keep their small files.
    places
        Where workspaces see their homes.
    limits
        Whether to set limits on CPU and memory where the system allows.
    freeze_s, kill_s
        Deadlines for all processes to be frozen, and to be gone.
    """

    name = "process"

    def __init__(
        self,
        folder: Path,
        places: Places,
        limits: bool = True,
        freeze_s: float = 10.0,
        kill_s: float = 30.0,
    ) -> None:
        self._folder, self._places, self._limits = folder, places, limits
        self._freeze_s, self._kill_s = freeze_s, kill_s
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    # --- start ------------------------------------------------------------------------

    async def start(self, spec: ServerSpec) -> None:
        """Have the server's processes started, durably known; a live one is left as it is."""
        sight = self.look(spec.key)
        if sight.alive:
            return
        if sight.known:
            await self.end(spec.key, 0)
        await asyncio.to_thread(self._write_spec, spec)
        at = self._at(spec.key)
        self._children[spec.key] = self._launch(at, spec.log)
        end = time.monotonic() + _START_S
        while not (at / "pids.json").exists():
            code = self._children[spec.key].poll()
            if code not in (None, launcher.NOT_NEEDED):
                raise StepFailed(f"The launcher ended with code {code}. {tail(spec.log)}".strip())
            if time.monotonic() > end:
                raise StepFailed(f"The launcher did not start the server within {_START_S:g} s.")
            await asyncio.sleep(_LOOK_S)

    @staticmethod
    def _launch(at: Path, log_file: Path) -> subprocess.Popen[bytes]:
        with open(log_file, "wb") as log:  # each start begins a new log, so none grows for ever
            os.fchmod(log.fileno(), 0o600)
            return subprocess.Popen(
                [sys.executable, "-I", "-S", launcher.__file__, str(at)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )

    def _write_spec(self, spec: ServerSpec) -> None:
        at = self._at(spec.key)
        (at / "runtime").mkdir(parents=True, exist_ok=True, mode=0o700)
        at.chmod(0o700)
        for name in ("pids.json", "exit.json", _LEFT_ALONE):
            (at / name).unlink(missing_ok=True)
        seen = self._places.see(spec.home, spec.object)
        groups, note = cgroups.make(spec.key, spec.cpus, spec.memory) if self._limits else ([], "")
        write_json(at / "spec.json", {
            "command": spec.command,
            "env": {
                **spec.env,
                "HOME": str(seen.path),
                "JUPYTER_RUNTIME_DIR": str(at / "runtime"),
            },
            "cwd": str(seen.path),
            "mount": seen.mount,
            "in_use": seen.in_use,
            "cgroups": [str(group) for group in groups],
            "note": note,
            "machine": machine_boot(),
        })  # fmt: skip

    # --- look -------------------------------------------------------------------------

    def look(self, key: str) -> Sight:
        """Say what is there."""
        at = self._at(key)
        self._reap(key)
        spec, pids = read_json(at / "spec.json"), read_json(at / "pids.json")
        if spec is None:
            return Sight(False, at.exists(), reason="It was never started here.")
        notes = tuple(filter(None, [spec["note"]]))
        if spec["machine"] != machine_boot():
            return Sight(False, True, reason="The host was restarted.", notes=notes)
        if pids is None:
            return Sight(False, True, reason="It did not begin to run.", notes=notes)
        server = Identity(*pids["server"])
        if server.alive():
            return Sight(True, True, server.pid, notes=notes)
        return Sight(False, True, reason=self._why(at, spec), notes=notes)

    def _why(self, at: Path, spec: dict[str, Any]) -> str:
        if cgroups.ran_out_of_memory([Path(group) for group in spec["cgroups"]]):
            return (
                "The server was ended because the workspace needed more memory than its flavor has."
            )
        ended = read_json(at / "exit.json")
        if ended is None:
            return "The server and its launcher were ended from outside."
        if ended["signal"] is not None:
            return f"The server was ended by {signal.Signals(ended['signal']).name}."
        return f"The server ended by itself with exit code {ended['code']}."

    def memory_used(self, key: str) -> int:
        """Return the resident memory of the workspace's processes, in bytes."""
        known = self._launcher(key)
        return tree.memory_of(tree.below(known)) if known else 0

    # --- freeze, thaw, end ------------------------------------------------------------

    async def freeze(self, key: str) -> None:
        """Stop all processes; returns once none runs any more."""
        known = self._launcher(key)
        if known is None or not self.look(key).alive:
            raise StepFailed("The server is not running, so there is nothing to freeze.")
        left = self._left_alone(key)
        if left is None:  # else frozen before, and what is stopped now may be by us
            left = frozenset(one for one in tree.below(known) if tree.is_stopped(one))
            # Outlives the agent, need not outlive the machine: the processes would not either.
            hidden = self._at(key) / f".{_LEFT_ALONE}"
            hidden.write_text(json.dumps(sorted(left)))
            hidden.replace(self._at(key) / _LEFT_ALONE)
        await tree.freeze(known, self._freeze_s)

    async def thaw(self, key: str) -> None:
        """Let go on what :meth:`freeze` stopped; a job that the person stopped stays so."""
        known, left = self._launcher(key), self._left_alone(key)
        if known is None or left is None:
            return
        tree.thaw(known, left)
        (self._at(key) / _LEFT_ALONE).unlink(missing_ok=True)

    def _left_alone(self, key: str) -> frozenset[Identity] | None:
        """Return what was stopped before the freeze; None if there was no freeze."""
        rows = read_json(self._at(key) / _LEFT_ALONE)
        return None if rows is None else frozenset(Identity(*row) for row in rows)

    async def take_path(self, key: str, home: Path, object_name: str) -> None:
        """Make the workspace's one path lead to this host's home."""
        self._places.take(home, object_name)

    async def end(self, key: str, grace_s: float) -> None:
        """End all processes; returns once none is left. A grace of 0 kills at once."""
        at = self._at(key)
        if not at.exists():
            return
        known = self._launcher(key)
        if known is None and self._is_held(at):
            known = await self._wait_for_launcher(key)
        if known is not None:
            sight = self.look(key)
            if grace_s and sight.alive and sight.server_pid is not None:
                with contextlib.suppress(ProcessLookupError):  # it ended by itself just now
                    os.kill(sight.server_pid, signal.SIGTERM)
                end = time.monotonic() + grace_s
                while self.look(key).alive and time.monotonic() < end:  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_S)
            where = str(at / "runtime")
            await tree.kill(known, "JUPYTER_RUNTIME_DIR", where, self._kill_s)
        self._reap(key, wait=True)
        spec = read_json(at / "spec.json") or {"cgroups": []}
        await asyncio.to_thread(cgroups.remove, [Path(group) for group in spec["cgroups"]])
        (at / "spec.json").unlink(missing_ok=True)  # first: without it a late launcher gives up
        await asyncio.to_thread(shutil.rmtree, at, True)

    # --- small things -----------------------------------------------------------------

    def _at(self, key: str) -> Path:
        return self._folder / key

    def _launcher(self, key: str) -> Identity | None:
        pids = read_json(self._at(key) / "pids.json")
        spec = read_json(self._at(key) / "spec.json")
        if pids is None or spec is None or spec["machine"] != machine_boot():
            return None
        return Identity(*pids["launcher"])

    @staticmethod
    def _is_held(at: Path) -> bool:
        """Tell whether a launcher lives that has not told its pid yet."""
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(at / "lock", os.O_RDWR)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(fd)
        return False

    async def _wait_for_launcher(self, key: str) -> Identity | None:
        end = time.monotonic() + _START_S
        while time.monotonic() < end and self._is_held(self._at(key)):
            if known := self._launcher(key):
                return known
            await asyncio.sleep(_LOOK_S)
        return self._launcher(key)

    def _reap(self, key: str, wait: bool = False) -> None:
        child = self._children.get(key)
        if child is None:
            return
        if wait:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(1.0)
        if child.poll() is not None:
            del self._children[key]


def machine_boot() -> str:
    """Return an id that changes with each start of the machine."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def tail(log: Path, lines: int = 20) -> str:
    """Return a log's last lines, for an error that a person reads."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    last = "\n".join(text.splitlines()[-lines:])
    return f"The log ends with:\n{last}" if last else "Its log is empty."
