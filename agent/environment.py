"""The environment of a workspace's server: what host, hub and lease give, in that order."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from devcluster.core.faults import VARIABLE as FAULTS
from devcluster.core.records import LeaseRequest

#: What the host's own environment passes on; never the agent's secrets.
_FROM_HOST = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "SHELL", "USER", "LOGNAME", "TERM",
              "LD_LIBRARY_PATH", "SSL_CERT_FILE", "TMPDIR")  # fmt: skip


def server_environment(
    request: LeaseRequest,
    host: str,
    model: str,
    bind: str,
    port: int,
    control: str,
    own: Mapping[str, str],
) -> dict[str, str]:
    """Return the environment of a lease's server, but for HOME and JUPYTER_RUNTIME_DIR.

    Parameters
    ----------
    model
        The model of the lease's GPUs; empty without any.
    bind, port
        Where the server listens.
    control
        The lease's secret for the server's control interface.
    own
        The agent's environment.

    Notes
    -----
    What the lease decides is set last, so that neither the hub nor a person can ask for
    more GPUs by a variable. ``void`` is the NVIDIA container runtime's word for none.
    """
    base = {name: own[name] for name in _FROM_HOST if name in own}
    env = {**base, **request.launch.env}
    bin_folder = os.path.dirname(sys.executable)
    env["PATH"] = os.pathsep.join(
        filter(None, [request.launch.env.get("PATH") or own.get("PATH", os.defpath), bin_folder])
    )
    prefix = request.launch.prefix
    env |= {
        "JUPYTERHUB_SERVICE_URL": f"http://{bind}:{port}{prefix}",
        "JUPYTERHUB_SERVICE_PREFIX": prefix,
        "CUDA_VISIBLE_DEVICES": ",".join(request.gpus),
        "NVIDIA_VISIBLE_DEVICES": ",".join(request.gpus) or "void",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "DEVCLUSTER_FLAVOR": request.flavor.name,
        "DEVCLUSTER_HOST": host,
        "DEVCLUSTER_LEASE": request.lease,
        "DEVCLUSTER_WORKSPACE": request.workspace,
        "DEVCLUSTER_GPUS": str(len(request.gpus)),
        "DEVCLUSTER_GPU_MODEL": model,
        "DEVCLUSTER_CONTROL": control,
    }
    env.pop("DEVCLUSTER_CLUSTER_TOKEN", None)
    env.pop(FAULTS, None)
    if FAULTS in own:
        env[FAULTS] = own[FAULTS]
    return env
