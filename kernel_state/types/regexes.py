"""Regular expressions: matches are made by matching again, scanners from their lexicon."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

from ..pickler import StatePickler, reducer, refuse
from ..records import CaptureError, Refused


@reducer(re.Pattern)
def _pattern(_pickler: StatePickler, pattern: Any) -> Any:
    if not isinstance(pattern.pattern, str | bytes):
        raise Refused(
            "a regular expression without a text (of a re.Scanner)", "Keep the re.Scanner.", pattern
        )
    return NotImplemented


@reducer(re.Match)
def _match(pickler: StatePickler, match: Any) -> Any:
    if not isinstance(match.re.pattern, str | bytes) or _again(match) is None:
        raise Refused(
            "a match that cannot be found again",
            "Keep its texts (x.group(), x.groupdict(), x.span()) instead.",
            match,
        )
    pickler.note("A match is made by matching again, and compared.")
    return _make_match, (match.re, match.string, match.pos, match.endpos, _result(match))


def _result(match: Any) -> tuple[Any, ...]:
    return match.regs, match.lastindex, match.lastgroup


def _again(match: Any) -> Any:
    return _find(match.re, match.string, match.pos, match.endpos, _result(match))


def _find(pattern: Any, text: Any, start: int, end: int, result: tuple[Any, ...]) -> Any:
    """Return the match of that result, in whichever way it was found; None if there is none."""

    def candidates() -> Iterator[Any]:
        yield pattern.match(text, start, end)
        yield pattern.fullmatch(text, start, end)
        yield from pattern.finditer(text, start, end)

    for match in candidates():
        if match is not None and _result(match) == result:
            return match
        if match is not None and match.start() > result[0][0][0]:
            return None
    return None


def _make_match(pattern: Any, text: Any, start: int, end: int, result: tuple[Any, ...]) -> Any:
    match = _find(pattern, text, start, end, result)
    if match is None:
        raise CaptureError("A match of a regular expression is not found again here.")
    return match


@reducer(re.Scanner)  # type: ignore[attr-defined]
def _scanner(_pickler: StatePickler, scanner: Any) -> Any:
    # `match` is the one that an action is called at.
    own = {k: v for k, v in vars(scanner).items() if k not in ("lexicon", "scanner", "match")}
    state = (scanner.lexicon, scanner.scanner.flags, own)
    return type(scanner).__new__, (type(scanner),), state, None, None, _fill_scanner


def _fill_scanner(scanner: Any, state: tuple[Any, int, dict[str, Any]]) -> None:
    lexicon, flags, own = state
    re.Scanner.__init__(scanner, lexicon, flags)  # type: ignore[attr-defined]
    vars(scanner).update(own)


reducer(type(re.compile("").scanner("")))(  # type: ignore[attr-defined]
    refuse(
        "an iterator of matches that is under way (re.finditer)",
        "Keep a list of them (list(x)), or make it again after the move.",
    )
)


@reducer(struct.Struct)
def _struct(_pickler: StatePickler, form: struct.Struct) -> Any:
    return type(form), (form.format,)
