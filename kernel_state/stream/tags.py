"""Tags of chunks: against damage, or, with a seal, against anybody without its key."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Protocol

import xxhash

from ..records import CaptureError
from ..seal import Seal
from .blocks import DIGEST_BYTES

_PURPOSE = b"devcluster capture 3"


class Tagger(Protocol):
    """Makes the tags of a capture, one after the other, on both of its sides."""

    def tag(self, data: Any) -> bytes:
        """Return the next tag: that of some bytes."""

    def skip(self, tags: int) -> None:
        """Leave tags out, as one who reads only parts does."""

    def digest(self) -> bytes:
        """Return a digest of all tags so far."""


class _Counted:
    """Numbers the tags, so that each has its place, and remembers them all in one digest."""

    def __init__(self) -> None:
        self._number = 0
        self._all = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def tag(self, data: Any) -> bytes:
        tag = self._tag(data, self._number)
        self._number += 1
        self._all.update(tag)
        return tag

    def skip(self, tags: int) -> None:
        self._number += tags

    def digest(self) -> bytes:
        return self._all.digest()

    def _tag(self, data: Any, number: int) -> bytes:
        raise NotImplementedError


class Checksums(_Counted):
    """Tags of a capture without a seal."""

    def _tag(self, data: Any, number: int) -> bytes:
        return xxhash.xxh3_128_digest(data, seed=number)


class Macs(_Counted):
    """Tags of a sealed capture.

    GMAC (NIST SP 800-38D) with AES-256. The key is derived for this one capture (HKDF,
    RFC 5869), so that a number is a nonce that is used once.
    """

    def __init__(self, seal: Seal, salt: bytes) -> None:
        super().__init__()
        # Imported only where captures are sealed.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        key = HKDF(algorithm=SHA256(), length=32, salt=salt, info=_PURPOSE).derive(seal.key)
        self._cipher = AESGCM(key)

    def _tag(self, data: Any, number: int) -> bytes:
        return self._cipher.encrypt(number.to_bytes(12, "big"), b"", data)


def tagger(seal: Seal | None, salt: bytes) -> Tagger:
    """Return what tags a capture."""
    return Checksums() if seal is None else Macs(seal, salt)


def verify(tag: bytes, expected: bytes, sealed: bool) -> None:
    """Raise :class:`CaptureError` if a tag is not the one that its data has."""
    if not hmac.compare_digest(tag, expected):
        raise CaptureError(
            "The capture was changed, or sealed with another key."
            if sealed
            else "The capture is damaged: a part has not the checksum that it was written with."
        )
