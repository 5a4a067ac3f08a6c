"""The seal of a capture: whose it is, and the key that proves that nobody changed it."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any

#: A key shorter than this could be guessed.
KEY_BYTES = 16


@dataclass(frozen=True)
class Seal:
    """What a capture is sealed with, and must be opened with.

    Attributes
    ----------
    key
        Secret of the one who keeps captures, at least :data:`KEY_BYTES` bytes. Each capture
        has a key of its own, derived from it.
    owner, workspace
        Whose state it is. They stand in the capture, readable.
    sequence
        Which of the workspace's captures it is, so that an older one is not taken for it.
    """

    key: bytes = field(repr=False)
    owner: str
    workspace: str
    sequence: int

    def __post_init__(self) -> None:
        if len(self.key) < KEY_BYTES:
            raise ValueError(f"a seal's key has at least {KEY_BYTES} bytes, not {len(self.key)}")

    @property
    def identity(self) -> dict[str, Any]:
        """What stands in the capture's header: all but the key."""
        return {"owner": self.owner, "workspace": self.workspace, "sequence": self.sequence}

    def to_json(self) -> dict[str, Any]:
        """Return the seal as JSON-serialisable values, the key in base64: a secret."""
        return {"key": base64.b64encode(self.key).decode(), **self.identity}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Seal:
        """Read back what :meth:`to_json` gave; raise ``ValueError`` for anything else."""
        try:
            key = base64.b64decode(content["key"], validate=True)
            seal = cls(key, content["owner"], content["workspace"], content["sequence"])
        except (KeyError, TypeError, binascii.Error) as error:
            raise ValueError(f"no seal: {type(error).__name__}") from None  # never shows the key
        texts = isinstance(seal.owner, str) and isinstance(seal.workspace, str)
        if not texts or type(seal.sequence) is not int:
            raise ValueError("no seal: owner and workspace are strings, sequence is a number")
        return seal
