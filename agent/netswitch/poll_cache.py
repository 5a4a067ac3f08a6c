"""The last good answers to the lab's polls, to be repeated while a workspace is parked.

Chromium opens six connections to an origin: polls that waited would block the tab.
An answer goes only to the credentials that it was made for, and only as long as
nothing was asked of the server that could have changed it: the lab *disposes* a
kernel that a list does not name, so an old list is worse than none.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

Key = tuple[str, bytes]

# JupyterLab appends the time in milliseconds to defeat caches, as "?1700000000000" or
# "&1700000000000" (@jupyterlab/services, serverconnection.ts).
_BUSTER = re.compile(r"[?&]\d{10,16}$")


@dataclass(frozen=True)
class CachedAnswer:
    """One answer with status 200."""

    headers: tuple[tuple[str, str], ...]
    body: bytes


def key(target: str, headers: Mapping[str, str]) -> Key:
    """Return what must be alike for an answer to be repeated: URL and credentials."""
    digest = hashlib.sha256()
    for name in ("Cookie", "Authorization", "Accept-Encoding"):
        digest.update(headers.get(name, "").encode("utf-8", "surrogateescape"))
        digest.update(b"\0")
    return _BUSTER.sub("", target), digest.digest()


def is_poll(method: str, target: str, prefix: str, polls: Collection[str]) -> bool:
    """Tell whether a request is one of the polls, written relative to the prefix."""
    if method != "GET":
        return False
    path = target.split("?", 1)[0]
    return path.startswith(prefix) and path[len(prefix) :] in polls


class PollCache:
    """The answers of one workspace, at most ``entries`` of them, the latest kept."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._answers: OrderedDict[Key, CachedAnswer] = OrderedDict()
        #: Rises when answers from before may be untrue; an answer is stored only if
        #: it was asked for under the present one.
        self.generation = 0

    def forget(self) -> None:
        """Drop all answers, and those that are on their way."""
        self.generation += 1
        self._answers.clear()

    def drop(self, at: Key) -> None:
        """Drop one answer."""
        self._answers.pop(at, None)

    def put(self, at: Key, answer: CachedAnswer, generation: int) -> None:
        """Keep an answer that was asked for under ``generation``."""
        if generation != self.generation:
            return
        self._answers[at] = answer
        self._answers.move_to_end(at)
        while len(self._answers) > self._entries:
            self._answers.popitem(last=False)

    def get(self, at: Key) -> CachedAnswer | None:
        """Return the answer, if there is one for this URL and these credentials."""
        return self._answers.get(at)
