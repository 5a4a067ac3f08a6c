"""Names: a workspace's id, and the object name that hosts use for it."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from .errors import BadRequest

#: The public name of a person's default (unnamed) server.
DEFAULT = "default"

_READABLE = 40
_DIGEST = 16


def workspace_id(user: str, server: str) -> str:
    """Return the id ``user/name`` of a JupyterHub server.

    The hub calls the default server ``""``; people see ``default``. A named
    server of that very name would be a second way to say the same id, so it is
    refused.

    Raises
    ------
    BadRequest
        If the pair has no id of its own.
    """
    if not user:
        raise BadRequest("A workspace needs a user name; it may not be empty.")
    if "/" in user or "/" in server:
        raise BadRequest(f"The names {user!r} and {server!r} may not contain '/'.")
    if server == DEFAULT:
        raise BadRequest(
            f"A server named {DEFAULT!r} would share its address with the unnamed "
            "server. Choose another name."
        )
    return f"{user}/{server or DEFAULT}"


def split_id(workspace: str) -> tuple[str, str]:
    """Return the hub's ``(user, server)`` of a workspace id; ``user`` alone is accepted."""
    user, slash, name = workspace.partition("/")
    if not user or (slash and not name) or "/" in name:
        raise BadRequest(
            f"{workspace!r} names no workspace. Write USER, or USER/NAME for a named server."
        )
    return user, "" if name == DEFAULT else name


def canonical_id(workspace: str) -> str:
    """Return the full id for ``alice`` or ``alice/default`` or ``alice/two``."""
    return workspace_id(*split_id(workspace))


def object_name(workspace: str) -> str:
    """Return the name that hosts use for a workspace's folders, containers and volumes.

    At most 57 characters of ``[a-z0-9-]``, so a legal DNS label and a legal
    Docker name. The readable part is for people; 64 bits of the exact id's SHA-256
    make it injective in practice. Stable between releases: objects on disk
    carry it.
    """
    ascii_text = unicodedata.normalize("NFKD", workspace).encode("ascii", "ignore").decode()
    readable = re.sub(r"[^a-z0-9]+", "-", ascii_text.lower())[:_READABLE].strip("-")
    digest = hashlib.sha256(workspace.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{readable or 'w'}-{digest}"
