"""A browser that one server of a workspace logged in is known to the next one."""

from __future__ import annotations

from types import SimpleNamespace

from devcluster.server_ext.cookies import cookie_secret, share_cookies
from devcluster.server_ext.place import Place
from tornado.web import create_signed_value, decode_signed_value
from traitlets.config import Config


def server(token: str, workspace: str = "alice/default", **config: object) -> SimpleNamespace:
    app = SimpleNamespace(
        config=Config(ServerApp=Config(config)),
        cookie_secret=b"random",
        web_app=SimpleNamespace(settings={"cookie_secret": b"random"}),
    )
    share_cookies(app, Place("lease", workspace, "host", "cpu", "/api", "control", token))
    return app


def test_the_next_server_reads_the_cookie() -> None:
    first, second = server("token-1"), server("token-1")
    signed = create_signed_value(first.web_app.settings["cookie_secret"], "user", "alice")
    assert decode_signed_value(second.web_app.settings["cookie_secret"], "user", signed) == b"alice"


def test_another_spawn_or_another_workspace_does_not() -> None:
    signed = create_signed_value(cookie_secret("token-1", "alice/default"), "user", "alice")
    for token, workspace in (("token-2", "alice/default"), ("token-1", "alice/two")):
        secret = server(token, workspace).web_app.settings["cookie_secret"]
        assert decode_signed_value(secret, "user", signed) is None


def test_an_admins_secret_stays() -> None:
    assert server("token-1", cookie_secret=b"mine").web_app.settings["cookie_secret"] == b"random"
