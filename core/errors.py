"""Errors that a person can act on, the same in every part and over HTTP."""

from __future__ import annotations

from typing import Any


class DevClusterError(Exception):
    """Something that went wrong, said so that its reader can act.

    Parameters
    ----------
    message
        What is wrong, and what is allowed or what to do instead. Shown to people.
    details
        Facts for programs; must be JSON-serialisable.
    """

    #: A stable word for programs; part of the REST contract.
    code = "internal"
    #: The HTTP status that carries it.
    status = 500
    #: Whether the same request may succeed later without any change to it.
    retry = False

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def to_json(self) -> dict[str, Any]:
        """Return the error as the body of an HTTP answer."""
        return {
            "error": self.code,
            "message": self.message,
            "retry": self.retry,
            "details": self.details,
        }


class BadRequest(DevClusterError):
    """The request is malformed, or asks for something that does not exist as a kind."""

    code, status = "bad-request", 400


class Unauthorized(DevClusterError):
    """Nobody knows who is asking: there is no token, or one that the hub does not know."""

    code, status = "unauthorized", 401


class Forbidden(DevClusterError):
    """The caller is known, but may not do this."""

    code, status = "forbidden", 403


class NotFound(DevClusterError):
    """No such workspace, host, lease, capture or move."""

    code, status = "not-found", 404


class Conflict(DevClusterError):
    """The thing asked for does not fit the present state; nothing was changed."""

    code, status = "conflict", 409


class Busy(Conflict):
    """A kernel is running a cell, so that its state cannot be captured now."""

    code, retry = "busy", True


class Stale(Conflict):
    """The caller acts on an epoch, revision or lease that has been superseded."""

    code = "stale"


class NoSpace(DevClusterError):
    """There is not enough disk or memory for the step; refused before it began."""

    code, status = "no-space", 507


class Unavailable(DevClusterError):
    """A part does not answer. Nothing is known about what it manages."""

    code, status, retry = "unavailable", 503, True


class StepFailed(DevClusterError):
    """A step of a move was tried and did not work."""

    code, status = "step-failed", 502


#: The kinds that travel over HTTP: those of this module, which a message alone makes.
_KINDS: dict[str, type[DevClusterError]] = {
    kind.code: kind
    for kind in (
        DevClusterError,
        BadRequest,
        Unauthorized,
        Forbidden,
        NotFound,
        Conflict,
        Busy,
        Stale,
        NoSpace,
        Unavailable,
        StepFailed,
    )
}


def from_json(status: int, body: object) -> DevClusterError:
    """Rebuild the error that a part answered with.

    An answer that is not one of ours (a proxy's HTML page, say) becomes
    :class:`Unavailable` for 5xx and a plain :class:`DevClusterError` otherwise:
    "cannot tell" never turns into "not there".
    """
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        kind = _KINDS.get(str(body.get("error")))
        details = body.get("details")
        if kind is not None:
            return kind(body["message"], **(details if isinstance(details, dict) else {}))
    text = str(body)[:300]
    if status >= 500:
        return Unavailable(f"The answer was HTTP {status}: {text}")
    return DevClusterError(f"The answer was HTTP {status}: {text}")
