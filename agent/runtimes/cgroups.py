"""Limits on CPU and memory through control groups, of either version, where we may set them.

Sources of the files' names: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000


def make(name: str, cpus: float, memory: int, root: Path = ROOT) -> tuple[list[Path], str]:
    """Make a group with these limits.

    Returns
    -------
    folders, note
        The folders that a process has to join, and why limits are missing, if any are.
    """
    quota = max(1000, int(cpus * PERIOD_US))
    if (root / "cgroup.controllers").exists():
        wanted = {"": {"cpu.max": f"{quota} {PERIOD_US}", "memory.max": str(memory)}}
    else:
        wanted = {
            "memory": {"memory.limit_in_bytes": str(memory)},
            "cpu": {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota)},
        }
    made: list[Path] = []
    missing: list[str] = []
    for controller, settings in wanted.items():
        base = root / controller
        folder = base / "devcluster" / name
        try:
            if not controller:
                _delegate(base)
            folder.mkdir(parents=True, exist_ok=True)
            if not controller:
                _delegate(base / "devcluster")
            for file, value in settings.items():
                (folder / file).write_text(value)
            made.append(folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                folder.rmdir()
            missing.append(f"{controller or 'cgroup'}: {error.strerror}")
    note = f"Limits are not enforced here ({'; '.join(missing)})." if missing else ""
    return made, note


def _delegate(folder: Path) -> None:
    (folder / "cgroup.subtree_control").write_text("+cpu +memory")


def ran_out_of_memory(folders: list[Path]) -> bool:
    """Tell whether the kernel ended a process of the group for its memory limit."""
    for folder in folders:
        for file in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                for line in (folder / file).read_text().splitlines():
                    word, _, count = line.partition(" ")
                    if word == "oom_kill" and int(count) > 0:
                        return True
    return False


def remove(folders: list[Path], deadline_s: float = 2.0) -> None:
    """Remove a group whose processes have ended; the kernel may lag behind a little."""
    end = time.monotonic() + deadline_s
    for folder in folders:
        while True:
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > end:
                    break  # an empty group costs nothing; the next start uses it again
                time.sleep(0.01)
            else:
                break
