"""The page that a person meets whose browser opens a deflated workspace.

It brings the workspace back and returns to where the person wanted to go. A page on
another site must not be able to do that: a navigation that comes from elsewhere gets
a button, which posts with the XSRF token.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from devcluster.core.errors import DevClusterError, Forbidden
from devcluster.core.lifecycle import State
from devcluster.core.names import DEFAULT, workspace_id
from devcluster.core.records import InflateRequest, WorkspaceView
from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from tornado.web import RequestHandler

from .auth import Caller, Gatekeeper, caller_of
from .page_html import render
from .service import Service

#: Where a navigation may come from (https://www.w3.org/TR/fetch-metadata/) that brings a
#: workspace back without a further question: the address bar, and this very site.
_OWN_SITES = frozenset({"none", "same-origin", "same-site"})


def safe_next(asked: str, prefix: str) -> str:
    r"""Return ``asked`` if it is a path under the workspace's prefix, else the prefix.

    So the page is no open redirect: not to other hosts (``//host``, ``/\host``), not
    out of the prefix by ``..``, in whatever way it is encoded.
    """
    decoded = unquote(unquote(asked))
    url = urlsplit(asked)
    odd = any(c in decoded for c in "\\\r\n\t\0") or ".." in decoded.split("/")
    odd = odd or asked.startswith("//")  # to a browser three slashes too begin a host
    if url.scheme or url.netloc or odd or not unquote(url.path).startswith(unquote(prefix)):
        return prefix
    return asked


class _PageHandler(HubOAuthenticated, RequestHandler):  # type: ignore[misc]
    """Knows the person by the hub's OAuth cookie."""

    def initialize(self, service: Service, gate: Gatekeeper) -> None:
        self.hub_auth = gate.hub_auth
        self._service = service

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "same-origin")

    async def _person(self) -> Caller | None:
        """Return who it is; None after sending the browser to the hub's login."""
        model = await self.hub_auth.get_user(self, sync=False)
        if not model:
            return None
        return caller_of(model)

    async def _view(self, caller: Caller, user: str, name: str) -> WorkspaceView:
        user, name = unquote(user), unquote(name)
        workspace = workspace_id(user, "" if name == DEFAULT else name)
        caller.need_workspace(workspace)
        return await self._service.workspace(workspace, {})

    def _refuse(self, error: DevClusterError) -> None:
        self.set_status(error.status)
        page, policy = render(error.message)
        self.set_header("Content-Security-Policy", policy)
        self.finish(page)


class OpenHandler(_PageHandler):
    """``open/{user}/{name}?next=...``."""

    async def get(self, user: str, name: str) -> None:
        """Bring the workspace back, or ask; then wait, then go on."""
        try:
            caller = await self._person()
            if caller is None:
                self.redirect(self.get_login_url())
                return
            view = await self._view(caller, user, name)
            following = safe_next(self.get_query_argument("next", ""), view.prefix or "/")
            if view.state == State.running:
                self.redirect(following)
                return
            if view.state == State.deflated and self._comes_from_here():
                await self._service.inflate(view.id, InflateRequest(), caller.name)
                view = await self._view(caller, user, name)
            self._show(view, user, name, following)
        except DevClusterError as error:
            self._refuse(error)

    async def post(self, user: str, name: str) -> None:
        """Bring the workspace back at the press of the button."""
        try:
            caller = await self._person()
            if caller is None:
                raise Forbidden("Log in first: open this page again.")
            self.check_xsrf_cookie()
            view = await self._view(caller, user, name)
            if view.state == State.deflated:
                await self._service.inflate(view.id, InflateRequest(), caller.name)
            following = safe_next(self.get_argument("next", ""), view.prefix or "/")
            # To the page by GET, so that "reload" does not post again.
            self.redirect(f"?next={quote(following, safe='/')}", status=303)
        except DevClusterError as error:
            self._refuse(error)

    def _comes_from_here(self) -> bool:
        headers = self.request.headers
        return (
            headers.get("Sec-Fetch-Site") in _OWN_SITES
            and headers.get("Sec-Fetch-Mode") == "navigate"
        )

    def _show(self, view: WorkspaceView, user: str, name: str, following: str) -> None:
        state = f"{self.request.path.rstrip('/')}/state"
        form = self.xsrf_form_html() if view.state == State.deflated else ""
        page, policy = render(
            _sentence(view),
            state_url=state,
            following=following,
            form_token=form,
            xsrf=self.xsrf_token.decode(),
        )
        self.set_header("Content-Security-Policy", policy)
        self.finish(page)


class StateHandler(_PageHandler):
    """What the page asks while it waits."""

    async def get(self, user: str, name: str) -> None:
        """Tell how it is, as soon as that changes."""
        self.set_header("Content-Type", "application/json")
        try:
            caller = await self._person()
            if caller is None:
                raise Forbidden("Log in first.")
            view = await self._view(caller, user, name)
            wait = {"wait": "20", "after": repr(view.since)}
            if view.state not in (State.running, State.deflated, State.failed, State.stopped):
                view = await self._service.workspace(view.id, wait)
            self.finish(json.dumps({"state": view.state, "text": _sentence(view)}))
        except DevClusterError as error:
            self.set_status(error.status)
            self.finish(json.dumps(error.to_json()))


class CallbackHandler(HubOAuthCallbackHandler):  # type: ignore[misc]
    """Where the hub's login returns to."""

    def initialize(self, gate: Gatekeeper) -> None:
        """Take what the route gives."""
        self.hub_auth = gate.hub_auth


def _sentence(view: WorkspaceView) -> str:
    move = view.move
    if view.state == State.deflated:
        why = f" {move.reason}" if move and move.status == "failed" else ""
        return f"{view.id} is deflated: its hardware is free, everything is kept.{why}"
    if move is not None and move.status == "queued":
        place = f", place {move.place} in the queue" if move.place else ""
        return f"{view.id} {move.reason or 'waits for hardware'}{place}."
    if view.state in (State.inflating, State.starting):
        step = f" ({move.steps[-1].step})" if move and move.steps else ""
        return f"{view.id} is coming back{step}…"
    if view.state == State.running:
        return f"{view.id} is running."
    return f"{view.id} is {view.state}. {view.reason}".strip()


def page_routes(base: str, service: Service, gate: Gatekeeper) -> list[Any]:
    """Return the routes of the pages, under ``base``."""
    root = base.rstrip("/")
    parts: dict[str, Any] = {"service": service, "gate": gate}
    return [
        (rf"{root}/open/([^/]+)/([^/]+)/state", StateHandler, parts),
        (rf"{root}/open/([^/]+)/([^/]+)/?", OpenHandler, parts),
        (rf"{root}/oauth_callback", CallbackHandler, {"gate": gate}),
    ]
