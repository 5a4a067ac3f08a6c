"""Puts the extension together in a running ``ServerApp``."""

from __future__ import annotations

import os
from typing import Any

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

from .capture import Capturer
from .connection import SETTING, TrackedConnection
from .cookies import share_cookies
from .handlers import Parts, routes
from .kernels import Kernels
from .lease_guard import guard
from .place import Place
from .restore import Restorer
from .warm import WarmKernels


def load(app: Any) -> None:
    """Load the extension; without a lease in the environment it does nothing.

    Parameters
    ----------
    app
        The ``jupyter_server.serverapp.ServerApp``, its web application being made.
    """
    place = Place.take(os.environ)
    if place is None:
        app.log.info("devcluster.server_ext is idle: no agent started this server.")
        return
    kernels = Kernels(app)
    warm = WarmKernels(kernels)
    parts = Parts(
        place=place,
        kernels=kernels,
        warm=warm,
        capturer=Capturer(kernels, place.host),
        restorer=Restorer(kernels, warm, place.host),
    )
    share_cookies(app, place)
    _track_requests(app, kernels)
    app.web_app.add_handlers(".*$", routes(app.base_url, parts, app.log))
    guard(app.web_app, place.lease)
    app.log.info("devcluster.server_ext serves lease %s of %s.", place.lease, place.workspace)


def _track_requests(app: Any, kernels: Kernels) -> None:
    settings, configured = app.web_app.settings, app.kernel_websocket_connection_class
    settings[SETTING] = kernels
    if configured is ZMQChannelsWebsocketConnection:
        app.kernel_websocket_connection_class = TrackedConnection
        # Handlers read the setting, which was made before extensions were loaded.
        settings["kernel_websocket_connection_class"] = TrackedConnection
    elif not issubclass(configured, TrackedConnection):
        app.log.warning(
            "ServerApp.kernel_websocket_connection_class is %s: devcluster.server_ext does not see "
            "cells that are queued, only those that run. Derive it from "
            "devcluster.server_ext.connection.TrackedConnection to be safe.",
            configured.__name__,
        )
