"""What a person uses in a notebook: ``%devcluster`` and two widgets.

Loaded into every kernel at its start, so nothing is imported before it is needed,
and nothing that goes wrong here may keep a kernel from starting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .hardware_switch import HardwareSwitch
    from .move_progress import MoveProgress

__all__ = ["HardwareSwitch", "MoveProgress", "load_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """Give the shell the ``%devcluster`` line magic (IPython's interface)."""

    def devcluster(line: str) -> None:
        """See, switch, deflate and inflate this workspace's hardware: ``%devcluster help``."""
        from .magic import run_line

        run_line(line, shell)

    shell.register_magic_function(devcluster, "line", "devcluster")


def __getattr__(name: str) -> Any:
    if name == "HardwareSwitch":
        from .hardware_switch import HardwareSwitch

        return HardwareSwitch
    if name == "MoveProgress":
        from .move_progress import MoveProgress

        return MoveProgress
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
