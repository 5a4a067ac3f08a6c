"""How each part of a cluster on one machine is started: command lines and environments."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Parts:
    """Ports, secrets and files, and what they mean for each part's command line."""

    base_dir: Path
    ports: dict[str, int]
    tokens: dict[str, str]
    hosts_file: Path
    flavors_file: Path
    faults: Path | None

    def at(self, name: str) -> str:
        """Return the address of a port by its name."""
        return f"http://127.0.0.1:{self.ports[name]}"

    def command(self, part: str) -> list[str]:
        """Return the command line of a part."""
        manager = f"{self.at('manager')}/services/devcluster"
        if part == "proxy":
            return [
                *_configurable_http_proxy(),
                *("--ip", "127.0.0.1", "--port", str(self.ports["hub"])),
                *("--api-ip", "127.0.0.1", "--api-port", str(self.ports["proxy_api"])),
                *("--error-target", f"{self.at('hub_internal')}/hub/error"),
            ]
        if part == "netswitch":
            return [
                *(sys.executable, "-m", "devcluster.agent.netswitch"),
                f"--NetSwitch.port={self.ports['netswitch']}",
                f"--NetSwitch.control_port={self.ports['netswitch_control']}",
                f"--NetSwitch.manager_url={manager}",
            ]
        if part == "hub":
            return [sys.executable, "-m", "jupyterhub", "-f", str(ROOT / "jupyterhub_config.py")]
        host = part.removeprefix("agent:")
        return [
            *(sys.executable, "-m", "devcluster.agent"),
            f"--Agent.host={host}",
            f"--Agent.hosts_file={self.hosts_file}",
            f"--Agent.data_dir={self.base_dir / 'hosts' / host}",
            f"--Agent.port={self.ports[part]}",
            f"--Agent.manager_url={manager}",
            f"--Agent.home_root={self.base_dir / 'home'}",
        ]

    def environment(self, part: str) -> dict[str, str]:
        """Return the whole environment of a part: each gets the secrets it needs, no more."""
        keep = ("HOME", "LANG", "LC_ALL", "TMPDIR", "USER")
        env = {name: os.environ[name] for name in keep if name in os.environ}
        env["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        env["PYTHONUNBUFFERED"] = "1"
        if self.faults is not None:
            env["DEVCLUSTER_FAULTS"] = str(self.faults)
        if part in ("proxy", "hub"):
            env["CONFIGPROXY_AUTH_TOKEN"] = str(self.tokens["proxy"])
        if part != "proxy":
            env["DEVCLUSTER_CLUSTER_TOKEN"] = str(self.tokens["cluster"])
        if part != "hub":
            return env
        keeper = [
            sys.executable,
            str(ROOT / "demo" / "keep.py"),
            str(self.base_dir / "run" / "manager.pid"),
        ]
        return env | {
            "DEVCLUSTER_DEMO": "1",
            "DEVCLUSTER_STATE_DIR": str(self.base_dir),
            "DEVCLUSTER_PUBLIC_URL": self.at("hub"),
            "DEVCLUSTER_PROXY_API_URL": self.at("proxy_api"),
            "DEVCLUSTER_HUB_BIND_URL": self.at("hub_internal"),
            "DEVCLUSTER_MANAGER_ORIGIN": self.at("manager"),
            "DEVCLUSTER_NETSWITCH_URL": self.at("netswitch"),
            "DEVCLUSTER_NETSWITCH_CONTROL_URL": self.at("netswitch_control"),
            "DEVCLUSTER_FLAVORS_FILE": str(self.flavors_file),
            "DEVCLUSTER_SERVICE_TOKEN": str(self.tokens["service"]),
            "DEVCLUSTER_ADMIN_TOKEN": str(self.tokens["admin"]),
            "DEVCLUSTER_MANAGER_KEEPER": shlex.join(keeper),
        }


def _configurable_http_proxy() -> list[str]:
    """Return the command of configurable-http-proxy, which ``scripts/setup`` puts beside Python.

    It is the proxy that JupyterHub documents and tests with; it is solid with websockets,
    and the ports of it to Python are no longer maintained.
    """
    prefix = Path(sys.prefix)
    script = prefix / "chp/node_modules/configurable-http-proxy/bin/configurable-http-proxy"
    if not script.is_file():
        raise FileNotFoundError(f"{script} is missing. Run scripts/setup.")
    node = shutil.which("node", path=f"{prefix / 'bin'}:{os.environ.get('PATH', os.defpath)}")
    if node is None:
        raise FileNotFoundError("There is no Node.js. Run scripts/setup.")
    return [node, str(script)]
