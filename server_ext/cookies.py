"""One cookie secret for a workspace, wherever its server runs.

A browser is logged in by a cookie that the server signed. A server on another host
must accept it, or the open tab would be sent to log in again, and its websockets
refused with 403, which the lab takes for a dead kernel.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from .place import Place


def cookie_secret(token: str, workspace: str) -> bytes:
    """Return the secret that belongs to a hub token and a workspace.

    It is as secret as the token, known wherever the token is, and ends with it: the
    hub makes a new token at each spawn. So nothing has to be sent or kept.
    """
    purpose = f"devcluster cookie secret of {workspace}"
    return hmac.digest(token.encode(), purpose.encode(), hashlib.sha256)


def share_cookies(app: Any, place: Place) -> None:
    """Have the server sign cookies as the workspace's other servers do.

    An admin's own ``ServerApp.cookie_secret`` is the same everywhere already, and stays.
    """
    if not place.token or "cookie_secret" in app.config.ServerApp:
        return
    app.cookie_secret = cookie_secret(place.token, place.workspace)
    app.web_app.settings["cookie_secret"] = app.cookie_secret
