"""The session that is saved or loaded: a namespace, and the IPython shell it belongs to."""

from __future__ import annotations

import builtins
import os
import re
import sys
from typing import Any

#: What Python itself puts into ``__main__``.
_PYTHON = {
    "__name__", "__doc__", "__package__", "__loader__", "__spec__", "__file__", "__cached__",
    "__builtins__", "__builtin__",
}  # fmt: skip
_NUMBERED = re.compile(r"_(i?)(\d+)")


class Session:
    """A namespace with its shell, if it has one.

    Attributes
    ----------
    namespace
        The dict in which the person's code runs.
    shell
        IPython's ``InteractiveShell``, or None for a bare namespace.
    """

    def __init__(self, namespace: dict[str, Any], shell: Any = None) -> None:
        self.namespace = namespace
        self.shell = shell

    @classmethod
    def find(cls, shell: Any = None, namespace: dict[str, Any] | None = None) -> Session:
        """Return the session meant: the one given, else the one that this code runs in.

        Raises
        ------
        RuntimeError
            If neither is given and this is no IPython kernel.
        """
        if namespace is not None and shell is None:
            return cls(namespace)
        if shell is None:
            # Only looked for: a process without IPython has no shell.
            ipython = sys.modules.get("IPython")
            shell = ipython.get_ipython() if ipython is not None else None
        if shell is None:
            raise RuntimeError(
                "This is no IPython session. Call it in a cell, or say which namespace to "
                "use: namespace=globals()."
            )
        return cls(shell.user_ns, shell)

    @property
    def history(self) -> Any:
        """IPython's history manager, or None."""
        return getattr(self.shell, "history_manager", None)

    def is_managed(self, name: str) -> bool:
        """Whether a name is IPython's or Python's own, as it stands now.

        A name of theirs to which the person assigned something else is the person's.
        """
        if name in _PYTHON:
            return True
        if self.shell is None:
            return False
        value, history = self.namespace[name], self.history
        if name in ("get_ipython", "exit", "quit", "open"):
            return self.shell.user_ns_hidden.get(name) is value
        if name in ("_", "__", "___"):
            return getattr(self.shell.displayhook, name, None) is value
        if history is None:
            return False
        owned = {
            "In": history.input_hist_parsed,
            "_ih": history.input_hist_parsed,
            "Out": history.output_hist,
            "_oh": history.output_hist,
            "_dh": history.dir_hist,
            "_i": history._i,
            "_ii": history._ii,
            "_iii": history._iii,
        }
        if name in owned:
            return owned[name] is value
        if match := _NUMBERED.fullmatch(name):
            number = int(match[2])
            if match[1]:
                return isinstance(value, str) and number < len(history.input_hist_parsed)
            return number in history.output_hist and history.output_hist[number] is value
        return False

    def variables(self) -> dict[str, Any]:
        """Return the person's variables, in the namespace's order."""
        return {
            name: value
            for name, value in list(self.namespace.items())
            if isinstance(name, str) and not self.is_managed(name)
        }

    def outputs(self) -> dict[int, Any]:
        """Return the cached results of cells, by execution count."""
        return {} if self.history is None else dict(self.history.output_hist)

    def landmarks(self) -> dict[str, Any]:
        """Return what every session has of its own, by name.

        A reference to a landmark is saved as its name, so that on the target it leads to
        the target's own: a function's globals are the live namespace, for one.
        """
        marks: dict[str, Any] = {
            "namespace": self.namespace,
            "builtins": builtins.__dict__,
            "environ": os.environ,
            "modules": sys.modules,
            "path": sys.path,
            "stdin": sys.stdin,
            "stdout": sys.stdout,
            "stderr": sys.stderr,
            "displayhook": sys.displayhook,
        }
        if self.shell is not None:
            marks |= {
                "shell": self.shell,
                "module": self.shell.user_module,
                "hidden": self.shell.user_ns_hidden,
            }
        if self.history is not None:
            marks |= {
                "In": self.history.input_hist_parsed,
                "In-raw": self.history.input_hist_raw,
                "Out": self.history.output_hist,
                "dirs": self.history.dir_hist,
            }
        random = sys.modules.get("random")
        if random is not None:
            marks["random"] = random._inst
        numpy_random = sys.modules.get("numpy.random.mtrand")
        if numpy_random is not None:
            marks["numpy-random"] = numpy_random._rand
        seen: set[int] = set()
        # One name for each object: stdout and stderr may be one.
        return {
            name: mark
            for name, mark in marks.items()
            if mark is not None and not (id(mark) in seen or seen.add(id(mark)))  # type: ignore[func-returns-value]
        }
