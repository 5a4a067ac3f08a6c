"""What a plan and a report are made of, and the errors of this library."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["carried", "rebuilt", "refused"]


@dataclass(frozen=True)
class Record:
    """What becomes of one variable.

    Attributes
    ----------
    name
        The variable; ``Out[3]`` for a cell's result, and words in parentheses for
        what is no variable, such as a thread.
    kind
        ``carried``: comes over as it is. ``rebuilt``: comes over, with the change
        that ``reason`` tells. ``refused``: stays behind, ``reason`` tells why.
    bytes
        What it adds to the capture; what it shares with a variable before it in
        the plan is counted there.
    remedy
        What the person can do about a refusal.
    """

    name: str
    kind: Kind
    bytes: int = 0
    reason: str = ""
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON-serialisable values."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Record:
        """Read back what :meth:`to_json` gave; raise ``ValueError`` for anything else."""
        if not isinstance(content, dict) or set(content) - set(cls.__dataclass_fields__):
            raise ValueError(f"no record of a variable: {content!r:.200}")
        record = cls(**content)
        texts = (record.name, record.kind, record.reason, record.remedy)
        if not all(isinstance(text, str) for text in texts) or not isinstance(record.bytes, int):
            raise ValueError(f"no record of a variable: {content!r:.200}")
        return record


class CaptureError(Exception):
    """A capture cannot be read or loaded; the namespace is as it was before."""


class Refused(Exception):
    """Raised by a reducer for an object that cannot be carried.

    Parameters
    ----------
    what
        The object, for people: ``"a running thread"``.
    remedy
        What the person can do.
    """

    def __init__(self, what: str, remedy: str, subject: object = None) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.subject = subject


class TimeLimit(BaseException):
    """A pickling did not end in time; no ``Exception``, so that user code lets it through."""
