"""The HTML of the waiting page, as text: no file to find, no script that is not ours."""

from __future__ import annotations

import json
import secrets
from html import escape

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; display: grid; place-items: center;
  min-height: 90vh; margin: 0; background: Canvas; color: CanvasText; }
main { max-width: 32rem; padding: 2rem; text-align: center; }
h1 { font-size: 1.25rem; font-weight: 600; }
.bar { height: 4px; border-radius: 2px; overflow: hidden; background: color-mix(in srgb,
  CanvasText 12%, Canvas); margin: 1.5rem 0; }
.bar::after { content: ""; display: block; height: 100%; width: 35%; border-radius: 2px;
  background: #f37726; animation: move 1.4s ease-in-out infinite alternate; }
@keyframes move { to { margin-left: 65%; } }
@media (prefers-reduced-motion: reduce) { .bar::after { animation: none; width: 100%; } }
button { font: inherit; padding: .6rem 1.4rem; border: 0; border-radius: 6px;
  background: #f37726; color: #1b1b1b; cursor: pointer; }
"""

_SCRIPT = """
const page = %s;
const wait = ms => new Promise(done => setTimeout(done, ms));
(async () => {
  for (;;) {
    try {
      const answer = await fetch(
        page.state, {headers: {Accept: 'application/json', 'X-XSRFToken': page.xsrf}});
      const now = await answer.json();
      document.getElementById('text').textContent = now.text || now.message;
      if (now.state === 'running') { location.replace(page.next); return; }
      if (['deflated', 'failed', 'stopped'].includes(now.state)) { location.reload(); return; }
    } catch (error) { await wait(2000); }
    await wait(300);
  }
})();
"""


def render(
    text: str, state_url: str = "", following: str = "", form_token: str = "", xsrf: str = ""
) -> tuple[str, str]:
    """Return the page and its Content-Security-Policy.

    Parameters
    ----------
    state_url
        Where the page asks how far it is; without it the page only says ``text``.
    form_token
        The XSRF field; with it there is a button instead of the asking.
    xsrf
        The XSRF token of the asking: the hub lets a cookie alone serve navigations only.
    """
    nonce = secrets.token_urlsafe(16)
    body = f'<p id="text" role="status">{escape(text)}</p>'
    if form_token:
        body += (
            f'<form method="post">{form_token}'
            f'<input type="hidden" name="next" value="{escape(following)}">'
            "<button>Bring it back</button></form>"
        )
    elif state_url:
        facts = json.dumps({"state": state_url, "next": following, "xsrf": xsrf})
        # "<" cannot end the script early: JSON may spell it as an escape.
        facts = facts.replace("<", "\\u003c")
        body += f'<div class="bar"></div><script nonce="{nonce}">{_SCRIPT % facts}</script>'
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f'<title>Dev Cluster</title><style nonce="{nonce}">{_STYLE}</style></head>'
        f"<body><main><h1>Dev Cluster</h1>{body}</main></body></html>"
    )
    policy = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )
    return page, policy
