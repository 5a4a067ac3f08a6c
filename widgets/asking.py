"""What a person typed after ``%devcluster``, as values. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from devcluster.core.errors import BadRequest
from devcluster.core.resources import Flavor, find_flavor, match_flavor

ACTIONS = ("status", "flavors", "resize", "plan", "deflate", "inflate", "cancel", "help")
_EXAMPLE = "Write a flavor's name, such as 'resize cpu', or 'resize gpu=1 model=A100'."


@dataclass(frozen=True)
class Shape:
    """The hardware that was asked for: by name, or by GPUs."""

    name: str | None = None
    gpus: int | None = None
    model: str | None = None

    def find(self, flavors: list[Flavor]) -> Flavor:
        """Return the flavor, or raise ``BadRequest`` that lists what there is."""
        if self.name is not None:
            return find_flavor(flavors, self.name)
        return match_flavor(flavors, 1 if self.gpus is None else self.gpus, self.model)


@dataclass(frozen=True)
class Asking:
    """One line: what to do, with which hardware, and how to print it."""

    action: str
    shape: Shape | None = None
    json: bool = False


def parse(line: str) -> Asking:
    """Read a line.

    Raises
    ------
    BadRequest
        If it makes no sense; the message tells what does.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise BadRequest(f"{line!r} cannot be read: {error}.") from error
    action, rest = (words[0], words[1:]) if words else ("help", [])
    if action not in ACTIONS:
        raise BadRequest(f"There is no %devcluster {action!r}. Allowed: {', '.join(ACTIONS)}.")
    if action in ("resize", "plan"):
        return Asking(action, _shape(action, rest))
    if action == "inflate" and rest:
        return Asking(action, _shape(action, rest))
    if action == "status" and rest == ["--json"]:
        return Asking(action, json=True)
    if rest:
        more = " but --json" if action == "status" else ""
        raise BadRequest(f"%devcluster {action} takes nothing{more}, not {' '.join(rest)!r}.")
    return Asking(action)


def _shape(action: str, words: list[str]) -> Shape:
    if not words:
        raise BadRequest(f"%devcluster {action}: to what? {_EXAMPLE}")
    if len(words) == 1 and "=" not in words[0]:
        return Shape(name=words[0])
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = {"gpus": "gpu"}.get(key, key)
        if not equals or key not in ("gpu", "model") or not value or key in given:
            raise BadRequest(f"{word!r} is not understood. {_EXAMPLE}")
        given[key] = value
    return Shape(gpus=_count(given.get("gpu")), model=given.get("model"))


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        count = int(text)
    except ValueError:
        count = -1
    if count < 0:
        raise BadRequest(f"gpu={text} is no count of GPUs. Write 0, 1, 2 and so on.")
    return count
