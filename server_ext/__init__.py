"""Dev Cluster inside a workspace's Jupyter server.

Saves the kernels and sessions of this server, and restores them in another one
under the same ids, on the word of the agent on the same host. The module is an
ordinary extension of jupyter-server; in a server that no agent has started it is
idle.
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "devcluster.server_ext"}]


def _load_jupyter_server_extension(serverapp: Any) -> None:
    # Imported here: `jupyter server extension list` imports this module for its name alone.
    from .extension import load

    load(serverapp)
