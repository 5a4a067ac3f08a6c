"""HTTP calls as values: what to ask, and how to read the answer. No I/O here.

A part's ``client`` module lists its calls as functions that return a
:class:`Call`; the very same list then serves a blocking client (magics, CLI)
and an asynchronous one (spawner, server extension, manager).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter

from .errors import Unavailable, from_json

T = TypeVar("T")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request of a part's REST interface.

    Attributes
    ----------
    read
        Turns the body of a 2xx answer into its value.
    timeout_s
        The total deadline, in seconds.
    """

    method: str
    path: str
    read: Callable[[bytes], T]
    body: bytes | None = None
    timeout_s: float = 10.0

    def answer(self, status: int, body: bytes) -> T:
        """Return the value of an answer, or raise the error that it carries."""
        if 200 <= status < 300:
            try:
                return self.read(body)
            except ValueError as error:
                raise Unavailable(
                    f"{self.method} {self.path} got an answer that is not of this interface: "
                    f"{body[:200]!r}"
                ) from error
        try:
            content: object = json.loads(body)
        except ValueError:
            content = body.decode("utf-8", "replace")
        raise from_json(status, content)


def call(
    method: str,
    path: str,
    returns: Any = None,
    body: BaseModel | None = None,
    timeout_s: float = 10.0,
) -> Call[Any]:
    """Build a call; ``returns`` is the type of its answer, None for an empty one."""
    read: Callable[[bytes], Any]
    read = (lambda _: None) if returns is None else TypeAdapter(returns).validate_json
    encoded = None if body is None else body.model_dump_json().encode()
    return Call(method, path, read, encoded, timeout_s)


def part(text: str) -> str:
    """Quote one path segment."""
    return quote(text, safe="")
