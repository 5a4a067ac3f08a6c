"""Who is asking, and what may they do. The hub is the authority; there is no login of our own."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, field
from typing import Any

from devcluster.core.errors import Forbidden, NotFound, Unauthorized, Unavailable
from devcluster.core.names import split_id
from jupyterhub.services.auth import HubOAuth
from tornado.web import HTTPError

#: The custom scopes; with ``!user=NAME`` or ``!server=USER/SERVER`` for some workspaces only.
USE, ADMIN = "custom:devcluster:use", "custom:devcluster:admin"

_HEADER = re.compile(r"^(?:token|bearer)\s+(\S+)$", re.IGNORECASE)


@dataclass(frozen=True)
class Caller:
    """Somebody whom the hub, or a shared token, vouches for.

    Attributes
    ----------
    hub
        It is the hub itself (its spawner).
    part
        It is an agent or the Net Switch.
    """

    name: str
    hub: bool = False
    part: bool = False
    scopes: frozenset[str] = field(default_factory=frozenset)

    @property
    def admin(self) -> bool:
        """Whether all workspaces are open to it."""
        return self.hub or ADMIN in self.scopes

    def may_use(self, workspace: str) -> bool:
        """Tell whether it may see and move a workspace."""
        if self.admin or USE in self.scopes:
            return True
        user, server = split_id(workspace)
        return not self.scopes.isdisjoint({f"{USE}!user={user}", f"{USE}!server={user}/{server}"})

    def need_workspace(self, workspace: str) -> None:
        """Refuse whoever may not use a workspace.

        With 404, the very answer for one that does not exist: whether somebody has a
        workspace of some name is nobody else's business.
        """
        if not self.may_use(workspace):
            raise NotFound(f"There is no workspace {workspace!r}.")

    def need_hub(self) -> None:
        """Refuse everybody but the hub: whoever starts a server chooses its command."""
        if not self.hub:
            raise Forbidden("Only the hub may start workspaces: use its spawn page or its API.")

    def need_part(self) -> None:
        """Refuse everybody but the parts of the cluster."""
        if not self.part:
            raise Forbidden(
                "Only agents and the Net Switch, with the cluster's token, may do this."
            )


class Gatekeeper:
    """Finds out who is asking.

    Parameters
    ----------
    cluster_token
        Shared by the manager, the agents and the Net Switch.
    hub_token
        The token of this very service (``JUPYTERHUB_API_TOKEN``); the spawner has it.
    """

    def __init__(self, hub_auth: HubOAuth, cluster_token: str, hub_token: str) -> None:
        self.hub_auth = hub_auth
        self._cluster_token, self._hub_token = cluster_token, hub_token

    async def identify(self, authorization: str | None) -> Caller:
        """Return who sends a request with this header.

        Raises
        ------
        Unauthorized
            Without a token, or with one that nobody knows.
        Unavailable
            If the hub, which would know, does not answer.
        """
        match = _HEADER.match((authorization or "").strip())
        if match is None:
            raise Unauthorized(
                "Who is asking? Send a JupyterHub token: 'Authorization: token TOKEN'. "
                "You make one at /hub/token."
            )
        token = match[1]
        if _same(token, self._cluster_token):
            return Caller("the cluster", part=True)
        if _same(token, self._hub_token):
            return Caller("the hub", hub=True)
        try:
            model = await self.hub_auth.user_for_token(token, sync=False)
        except HTTPError as error:
            raise Unavailable("The hub, which knows the token, does not answer.") from error
        if model is None:
            raise Unauthorized(
                "The hub does not know this token. It may have expired: make one at /hub/token."
            )
        return caller_of(model)


def caller_of(model: dict[str, Any]) -> Caller:
    """Return the caller that a hub's user model describes."""
    return Caller(str(model["name"]), scopes=frozenset(model.get("scopes", ())))


def _same(given: str, known: str) -> bool:
    return bool(known) and hmac.compare_digest(given.encode(), known.encode())
