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

from . import api, walk
from .limits import Limit
from .parts import imports
from .records import CaptureError, Record
from .seal import Seal
from .session import Session
from .stream.receive import Receipt
from .stream.share import Listing, Share

#: The connection to a target or a source, while there is one.
_share: Share | None = None
_receipt: Receipt | None = None


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


def save_json(path: str, into: str | None = None, seal: dict[str, Any] | None = None) -> str:
    """Save to a path; return ``{"variables": [...], "bytes": n, "seconds": s}``."""
    began = time.perf_counter()
    records = api.save(path, seal=_seal(seal))
    size, seconds = Path(path).stat().st_size, time.perf_counter() - began
    return _answer(records, into, bytes=size, seconds=round(seconds, 4))


def load_json(path: str, into: str | None = None, seal: dict[str, Any] | None = None) -> str:
    """Load from a path; return ``{"variables": [...], "bytes": n, "seconds": s}``."""
    began = time.perf_counter()
    records = api.load(path, seal=_seal(seal))
    return _answer(records, into, seconds=round(time.perf_counter() - began, 4))


def share_json(socket_path: str, seal: dict[str, Any] | None = None) -> str:
    """Begin to send large buffers to a socket, in a thread; return ``{"buffers": n, "bytes": n}``.

    A share that is open is closed before.
    """
    global _share
    stop_sharing_json()
    limit = Limit(api.LIMIT_S)
    listing = Listing(limit.check)
    walk.survey(Session.find(), limit, sink=listing)
    _share = Share(socket_path, _seal(seal), listing.found)
    return json.dumps({"buffers": len(listing.found), "bytes": _share.total})


def share_progress_json() -> str:
    """Return ``{"sent": bytes, "total": bytes, "done": bool, "error": text or null}``."""
    share = _open_share()
    progress = {"sent": share.sent, "total": share.total, "done": share.done}
    return json.dumps({**progress, "error": share.error})


def save_shared_json(seal: dict[str, Any] | None = None, into: str | None = None) -> str:
    """Send the session over the open share, which ends with it. The seal must be the share's.

    Return ``{"variables": [...], "bytes": n, "seconds": s, "sent": n}``: ``sent`` is what
    had to be sent now.

    Raises
    ------
    RuntimeError, OSError
        If there is no share, or it is broken: save to a file then.
    """
    began = time.perf_counter()
    share = _open_share()
    try:
        if _seal(seal) != share.seal:
            raise RuntimeError("The session is shared under another seal.")
        share.pause()
        limit = Limit(api.LIMIT_S)
        sink = share.sink(limit.check)
        records = api.save_into(sink, Session.find(), limit)
    finally:
        stop_sharing_json()
    seconds = round(time.perf_counter() - began, 4)
    return _answer(records, into, seconds=seconds, sent=sink.sent)


def receive_json(socket_path: str, seal: dict[str, Any] | None = None) -> str:
    """Begin to receive a session from a socket, in a thread; return ``{}``."""
    global _receipt
    stop_sharing_json()
    _receipt = Receipt(socket_path, _seal(seal))
    return json.dumps({})


def load_received_json(into: str | None = None, timeout_s: float = 60) -> str:
    """Wait for the end of what is received, and load it; return what :func:`load_json` does."""
    began = time.perf_counter()
    if _receipt is None:
        raise CaptureError("This kernel does not receive a capture.")
    try:
        records = api.load_content(_receipt.content(timeout_s), Session.find())
    finally:
        stop_sharing_json()
    return _answer(records, into, seconds=round(time.perf_counter() - began, 4))


def stop_sharing_json() -> str:
    """Close what is open to a target or a source, and free its memory; return ``{}``."""
    global _share, _receipt
    share, receipt, _share, _receipt = _share, _receipt, None, None
    if share is not None:
        share.close()
    if receipt is not None:
        receipt.close()
    return json.dumps({})


def _open_share() -> Share:
    if _share is None:
        raise RuntimeError("This kernel shares its state with no target.")
    return _share


def _seal(content: dict[str, Any] | None) -> Seal | None:
    return None if content is None else Seal.from_json(content)


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
