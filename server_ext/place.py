"""Where this server runs: the facts that the agent left in its environment."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field

#: The path of the manager behind the hub's proxy, where nothing else is said.
MANAGER_PATH = "/services/devcluster"


@dataclass(frozen=True)
class Place:
    """One lease of one workspace, as its server sees it.

    Attributes
    ----------
    secret
        What the agent proves itself with on the control endpoints; empty if there
        is none, and then nobody may use them.
    api
        Where the browser finds the manager: a path on the hub's own address, or a URL.
    token
        The person's token for the manager.
    """

    lease: str
    workspace: str
    host: str
    flavor: str
    api: str
    secret: str = field(repr=False)
    token: str = field(repr=False)

    @classmethod
    def take(cls, environ: MutableMapping[str, str]) -> Place | None:
        """Read the facts and take the secret away, so that no kernel inherits it.

        Returns
        -------
        Place or None
            None where no agent started this server.
        """
        secret = environ.pop("DEVCLUSTER_CONTROL", "")
        lease = environ.get("DEVCLUSTER_LEASE", "")
        if not lease:
            return None
        return cls(
            lease=lease,
            workspace=environ.get("DEVCLUSTER_WORKSPACE", ""),
            host=environ.get("DEVCLUSTER_HOST", ""),
            flavor=environ.get("DEVCLUSTER_FLAVOR", ""),
            api=environ.get("DEVCLUSTER_PUBLIC_URL") or MANAGER_PATH,
            secret=secret,
            token=environ.get("DEVCLUSTER_TOKEN") or environ.get("JUPYTERHUB_API_TOKEN", ""),
        )
