"""A JupyterHub with a Dev Cluster: copy it, and put your own authenticator in.

What differs from place to place comes from the environment, with defaults that
fit one machine. ``make demo`` and the tests run this very file.

    DEVCLUSTER_CLUSTER_TOKEN   secret shared by manager, agents and Net Switch (needed)
    DEVCLUSTER_SERVICE_TOKEN   secret between hub and manager (needed)
    CONFIGPROXY_AUTH_TOKEN     secret between hub and proxy (needed)
    JUPYTERHUB_CRYPT_KEY       as JupyterHub's documentation says, if you keep auth state
"""

import os
import shlex
import sys
from pathlib import Path

c = get_config()  # noqa: F821

here = Path(__file__).resolve().parent


def setting(name, default=None):
    """Return DEVCLUSTER_<name> of the environment, or the default."""
    value = os.environ.get(f"DEVCLUSTER_{name}", default)
    if value is None:
        raise SystemExit(f"Set DEVCLUSTER_{name}; see the top of {__file__}.")
    return value


state = Path(setting("STATE_DIR", "."))
public_url = setting("PUBLIC_URL", "http://127.0.0.1:8000")
manager = setting("MANAGER_ORIGIN", "http://127.0.0.1:8091")
netswitch_url = setting("NETSWITCH_URL", "http://127.0.0.1:8092")
netswitch_control_url = setting("NETSWITCH_CONTROL_URL", "http://127.0.0.1:8093")
cluster_token = setting("CLUSTER_TOKEN")
service_token = setting("SERVICE_TOKEN")
admins = set(setting("ADMINS", "admin").split(","))

# --- the hub and its proxy -----------------------------------------------------------------
# The proxy is a process of its own, so that a restart of the hub breaks nobody's tab.
c.JupyterHub.bind_url = public_url
c.JupyterHub.hub_bind_url = setting("HUB_BIND_URL", "http://127.0.0.1:8081")
c.JupyterHub.db_url = setting("HUB_DB", f"sqlite:///{state / 'jupyterhub.sqlite'}")
c.JupyterHub.cookie_secret_file = str(state / "jupyterhub_cookie_secret")
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = setting("PROXY_API_URL", "http://127.0.0.1:8001")
c.JupyterHub.cleanup_servers = False  # workspaces go on while the hub is away
c.JupyterHub.cleanup_proxy = False
c.JupyterHub.init_spawners_timeout = 1  # the manager starts after this check

# --- people --------------------------------------------------------------------------------
c.Authenticator.admin_users = admins
if setting("DEMO", "0") == "1":  # anybody may be anybody: for a demo on one machine only
    c.JupyterHub.authenticator_class = "dummy"
    c.Authenticator.allowed_users = {"alice", "bob", *admins}
    # The demo's workspaces run as whoever started it; in a container that may be root.
    c.Spawner.args = ["--allow-root"] if os.geteuid() == 0 else []
# else: c.JupyterHub.authenticator_class = "...", your own

# --- workspaces ----------------------------------------------------------------------------
c.JupyterHub.spawner_class = "devcluster"
c.JupyterHub.allow_named_servers = True
c.DevClusterSpawner.manager_url = f"{manager}/services/devcluster"
c.DevClusterSpawner.manager_token = service_token
c.DevClusterSpawner.netswitch_url = netswitch_url
c.Spawner.default_url = "/lab"
if os.geteuid() == 0:  # agents with the process runtime start servers as themselves
    c.Spawner.args = ["--allow-root"]
c.Spawner.start_timeout = 86400  # seconds that a spawn may queue for hardware
c.Spawner.poll_interval = 15

# --- the manager, as a service that the hub starts ---------------------------------------------
c.JupyterHub.services = [
    {
        "name": "devcluster",
        "url": manager,
        "api_token": service_token,
        "command": [
            # A supervisor that starts it again at once; the hub alone looks every 30 s.
            *shlex.split(setting("MANAGER_KEEPER", "")),
            *(sys.executable, "-m", "devcluster.hub_ext"),
            f"--Manager.flavors_file={setting('FLAVORS_FILE', here / 'demo' / 'flavors.yaml')}",
            f"--Manager.db_url={setting('DB_URL', f'sqlite:///{state.resolve()}/devcluster.sqlite')}",
            f"--Manager.netswitch_control_url={netswitch_control_url}",
        ],
        "environment": {
            name: value
            for name, value in os.environ.items()
            if name in ("DEVCLUSTER_CLUSTER_TOKEN", "DEVCLUSTER_FAULTS", "PATH")
        },
        "oauth_client_allowed_scopes": ["custom:devcluster:use", "custom:devcluster:admin"],
        "oauth_no_confirm": True,
        "display": False,
    }
]

# --- who may do what ------------------------------------------------------------------------
c.JupyterHub.custom_scopes = {
    "custom:devcluster:use": {
        "description": "Switch, deflate and inflate workspaces",
    },
    "custom:devcluster:admin": {
        "description": "See and steer everybody's workspaces, and the hosts",
        "subscopes": ["custom:devcluster:use"],
    },
}
c.JupyterHub.load_roles = [
    {
        "name": "user",  # the hub's own role for everybody, and what it has by default
        "scopes": ["self", "access:services!service=devcluster", "custom:devcluster:use!user"],
    },
    {
        "name": "devcluster-admin",
        "description": "Steers the whole cluster",
        "scopes": ["custom:devcluster:admin", "access:services!service=devcluster"],
        "users": sorted(admins),
    },
    {
        "name": "devcluster-manager",
        "description": "What the manager needs of the hub",
        "scopes": ["list:users", "read:servers", "read:groups"],
        "services": ["devcluster"],
    },
]

# A token for programs that manage the whole cluster, if you want one.
if "DEVCLUSTER_ADMIN_TOKEN" in os.environ:
    c.JupyterHub.services.append(
        {"name": "devcluster-tools", "api_token": setting("ADMIN_TOKEN"), "display": False}
    )
    c.JupyterHub.load_roles.append(
        {
            "name": "devcluster-tools",
            "description": "Programs that manage the whole cluster",
            "scopes": [
                *("admin:users", "admin:servers", "tokens", "list:services"),
                *("custom:devcluster:admin", "access:services!service=devcluster"),
            ],
            "services": ["devcluster-tools"],
        }
    )
