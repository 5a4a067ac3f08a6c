"""A server's token as the hub keeps it for us: sealed, since admins can read a server's state."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken


def _key(secret: str) -> Fernet:
    digest = hashlib.sha256(b"devcluster spawner state\0" + secret.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(digest))


def seal(token: str, secret: str) -> str:
    """Return the token, readable only with the secret."""
    return _key(secret).encrypt(token.encode()).decode()


def unseal(sealed: str, secret: str) -> str:
    """Return the token; ``""`` if it was sealed with another secret, or is not ours."""
    try:
        return _key(secret).decrypt(sealed.encode()).decode()
    except InvalidToken:
        return ""
