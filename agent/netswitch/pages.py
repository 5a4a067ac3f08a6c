"""What people and programs read when a workspace cannot be reached now: always a 503."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from string import Template
from urllib.parse import quote

from devcluster.core.errors import Unavailable
from devcluster.core.names import DEFAULT, split_id
from devcluster.core.records import Route, RouteMode

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="$again">
<title>$title</title>
<style>
:root { color-scheme: light dark; --ground: #f6f7f9; --card: #fff; --ink: #1c2127; --soft: #5f6b7c;
  --edge: #dde1e6; --accent: #f37726; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #16181c; --card: #1f2329; --ink: #e8eaed; --soft: #9aa4b2; --edge: #333a43; } }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--ground);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 30rem; margin: 1.5rem; padding: 2rem; background: var(--card);
  border: 1px solid var(--edge); border-top: 4px solid var(--accent); border-radius: 8px;
  overflow-wrap: anywhere; }
h1 { margin: 0 0 .75rem; font-size: 1.25rem; }
p { margin: .5rem 0; } small { color: var(--soft); }
</style>
</head>
<body><main><h1>$title</h1><p>$message</p>
<p><small>This page tries again every $again seconds.</small></p></main></body>
</html>
""")

#: Pages load nothing and run nothing.
PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"

_TITLES = {
    RouteMode.deflated: "This workspace is deflated",
    RouteMode.closed: "This workspace is not running",
}
_MESSAGES = {
    RouteMode.open: "The workspace's server does not answer now.",
    RouteMode.parked: "The workspace is changing its hardware and takes longer than expected.",
    RouteMode.deflated: "This workspace is deflated: its hardware is free, its state is kept. "
    "Open it again, or press Inflate, to go on.",
    RouteMode.closed: "The workspace is stopped. Start it from the JupyterHub home page.",
}
UNKNOWN = "No workspace is known at this address. It may be starting: try again in a moment."


@dataclass(frozen=True)
class Refusal:
    """Why a request is not passed on.

    Attributes
    ----------
    location
        Where a person who opens a page is led instead, if anywhere.
    """

    title: str
    message: str
    location: str | None = None

    def as_json(self) -> bytes:
        """Return the body for programs: the error format of all parts."""
        return json.dumps(Unavailable(self.message).to_json()).encode()

    def as_html(self, again_s: int) -> bytes:
        """Return the page for people; everything that came from outside is escaped."""
        text = _PAGE.substitute(
            title=escape(self.title), message=escape(self.message), again=again_s
        )
        return text.encode("utf-8", "replace")


def refusal(route: Route | None, target: str, open_url: str, why: str = "") -> Refusal:
    """Return what to say about a route that leads nowhere now (None: there is none).

    Parameters
    ----------
    target
        Path and query that were asked for; where the person wants to be in the end.
    open_url
        With ``{user}`` and ``{name}``: the page that inflates a workspace.
    why
        A cause to tell instead of the usual sentence.
    """
    if route is None:
        return Refusal("No workspace here yet", why or UNKNOWN)
    message = why or route.message or _MESSAGES[route.mode]
    title = _TITLES.get(route.mode, "This workspace cannot be reached now")
    location = None
    if route.mode is RouteMode.deflated:
        user, server = split_id(route.workspace)
        page = open_url.format(user=quote(user, safe=""), name=quote(server or DEFAULT, safe=""))
        location = f"{page}?next={quote(target, safe='', errors='surrogateescape')}"
    return Refusal(title, message, location)
