"""Small files that must survive a power cut: written whole, or not at all."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any


def write_json(path: Path, content: Any) -> None:
    """Replace a file durably; only the agent's user may read it."""
    write_bytes(path, json.dumps(content).encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file durably; only the agent's user may read it."""
    hidden = path.with_name(f".{path.name}.{os.getpid()}.new")
    fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(hidden, path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def read_json(path: Path) -> Any:
    """Return a file's content, or None where there is none or it is damaged."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return json.loads(path.read_bytes())
    return None


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
