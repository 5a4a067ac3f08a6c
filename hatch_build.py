"""Build hook: links for ``pip install -e .``, and the built panel for every install."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PANEL = "share/jupyter/labextensions/@devcluster/panel"


class LinkPackages(BuildHookInterface):  # type: ignore[type-arg]
    """Make ``F/`` importable as ``devcluster.F`` in editable installs, and add the panel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Prepare one build (hatchling's interface)."""
        root = Path(self.root)
        if (root / "widgets/lab/dist").is_dir():
            build_data["shared_data"]["widgets/lab/dist"] = PANEL
        if version != "editable":
            return
        for folder, name in self.build_config.sources.items():
            link = root / ".links" / name.rstrip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(Path("../..", folder.rstrip("/")))
