"""What another process asks a kernel to do, through a silent ``execute_request``.

Send ``code=""``, ``silent=True``, ``store_history=False`` and the question as one of
``user_expressions``; it leaves no name in the namespace, and changes neither ``_`` nor
``In`` and ``Out`` nor the execution count::

    __import__("devcluster.kernel_state.remote", fromlist=["x"]).plan_json()

The answer is ``reply["content"]["user_expressions"][key]``: with ``status`` ``ok``,
``data["text/plain"]`` is the ``repr`` of the string that the function returned, so
:func:`decode` (or ``json.loads(ast.literal_eval(text))``) gives its value. Python escapes
what is not ASCII, and IPython neither shortens nor wraps a string without line breaks.
Where a person may have registered a formatter of their own for strings, give ``into``: the
JSON is then written to that file as well. Any other status has ``ename`` and ``evalue``.
"""

from __future__ import annotations

import ast
import json
import time
from pathlib import Path
from typing import Any

from . import api
from .parts import imports
from .records import Record


def decode(reply_content: dict[str, Any], key: str) -> Any:
    """Return the value of an expression from an ``execute_reply``'s content.

    Raises
    ------
    RuntimeError
        If the kernel answered with an error; its text says which.
    """
    answer = reply_content.get("user_expressions", {}).get(key)
    if answer is None:
        raise RuntimeError(f"The kernel did not evaluate {key!r}: {reply_content!r:.300}")
    if answer.get("status") != "ok":
        raise RuntimeError(f"{answer.get('ename')}: {answer.get('evalue')}")
    return json.loads(ast.literal_eval(answer["data"]["text/plain"]))


def plan_json(into: str | None = None) -> str:
    """Return ``{"variables": [...], "modules": [...], "bytes": n}``."""
    return _answer(api.plan(), into, modules=imports.modules())


def save_json(path: str, into: str | None = None) -> str:
    """Save to a path; return ``{"variables": [...], "bytes": n, "seconds": s}``."""
    began = time.perf_counter()
    records = api.save(path)
    size, seconds = Path(path).stat().st_size, time.perf_counter() - began
    return _answer(records, into, bytes=size, seconds=round(seconds, 4))


def load_json(path: str, into: str | None = None) -> str:
    """Load from a path; return ``{"variables": [...], "bytes": n, "seconds": s}``."""
    began = time.perf_counter()
    records = api.load(path)
    return _answer(records, into, seconds=round(time.perf_counter() - began, 4))


def warm_json(names: list[str], into: str | None = None) -> str:
    """Import modules quietly; return ``{"modules": [...]}``, those that are imported now."""
    return _write(json.dumps({"modules": imports.warm(names)}), into)


def _answer(records: list[Record], into: str | None, **more: Any) -> str:
    content = {
        "variables": [record.to_json() for record in records],
        "bytes": sum(record.bytes for record in records),
        **more,
    }
    return _write(json.dumps(content), into)


def _write(text: str, into: str | None) -> str:
    if into is not None:
        Path(into).write_text(text, encoding="utf-8")
    return text
