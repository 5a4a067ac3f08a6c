import sys
import types
from pathlib import Path

import pytest

# pytest's importlib mode puts no folder on the path; these helpers are for these tests only.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def fresh_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what a kernel's process would not have: the runner's main, others' widgets.

    Dataclasses make methods whose globals are ``__main__``, so that a plan sees all of it;
    a widget that lives belongs to the session, whichever variable holds it.
    """
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    if widget := sys.modules.get("ipywidgets.widgets.widget"):
        monkeypatch.setattr(widget, "_instances", {})
