"""Try states of a corpus: run, save, kill, load in another process, probe.

``python tests/kernel_state/states/run.py [NAME...]`` prints the table.

====================== ==============================================================
``pass``               every probe holds
``refused``            what fails is about variables that were named before the move
``restore-err``        saving said ok, restoring failed
``WRONG``              both said ok, and a probe is false
====================== ==============================================================
"""

from __future__ import annotations

import ast
import os
import queue
import re
import runpy
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).with_name("corpus.py")
#: In each kernel's environment at its start; one state deletes it and checks that it is gone.
ENVIRONMENT = {"LANGX_TEST": "1", "PATHX": "1"}
#: Seconds for any one thing that is asked of a kernel.
LIMIT_S = 90.0


@dataclass
class Verdict:
    """What became of one state."""

    name: str
    ideal: str
    kind: str
    seconds: float
    #: Probes that fail, with what they raised.
    failed: list[str] = field(default_factory=list)
    #: Variables that were refused, with the reason.
    refused: dict[str, str] = field(default_factory=dict)
    error: str = ""
    probes: int = 0

    def row(self) -> str:
        """Return a line of the table."""
        held = self.probes - len(self.failed)
        counts = f"{held:3}/{self.probes:<3} {self.seconds:5.1f} s"
        return f"{self.name:20} {self.ideal:8} {self.kind:12} {counts}"


def states() -> list[dict[str, Any]]:
    """Return the corpus."""
    path = os.environ.get("DEVCLUSTER_STATES", str(CORPUS))
    found: list[dict[str, Any]] = runpy.run_path(path)["STATES"]
    return found


def judge(state: dict[str, Any]) -> Verdict:
    """Try one state."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        verdict = _judge(state, Path(folder))
    verdict.seconds = time.monotonic() - began
    verdict.probes = len(state["probes"])
    return verdict


def _judge(state: dict[str, Any], base: Path) -> Verdict:
    home, capture = base / "home", base / "state.capture"
    home.mkdir()
    for name, text in state["files"].items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    verdict = Verdict(state["name"], state["ideal"], "WRONG", 0.0)
    source = StateKernel(home)
    try:
        for cell in state["cells"]:
            source.run(cell)
        plan = source.remote("plan_json()")["variables"]
        verdict.refused = {r["name"]: r["reason"] for r in plan if r["kind"] == "refused"}
        try:
            source.remote(f"save_json({str(capture)!r})")
        except Exception as error:  # a refusal of everything, which no state deserves
            verdict.kind, verdict.error = "refuse-all", str(error)
            return verdict
    finally:
        source.kill()
    target = StateKernel(home)
    try:
        try:
            target.remote(f"load_json({str(capture)!r})")
        except Exception as error:
            verdict.kind, verdict.error = "restore-err", str(error)
            return verdict
        for probe in state["probes"]:
            problem = target.probe(probe)
            if problem:
                verdict.failed.append(f"{probe}  ->  {problem}")
                if not is_about(probe, set(verdict.refused)):
                    verdict.error = verdict.error or f"not named: {probe}"
    finally:
        target.kill()
    if not verdict.failed:
        verdict.kind = "pass"
    elif not verdict.error:
        verdict.kind = "refused"
    return verdict


def is_about(probe: str, refused: set[str]) -> bool:
    """Whether a probe uses one of some variables."""
    tree = ast.parse(probe.removeprefix("!"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return bool(used & refused)


class StateKernel:
    """A real kernel in a home of its own."""

    def __init__(self, home: Path) -> None:
        from kernels import Kernel

        before = {name: os.environ.get(name) for name in ENVIRONMENT}
        os.environ.update(ENVIRONMENT)
        try:
            self._kernel = Kernel(home)
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        self.run, self.kill = self._kernel.run, self._kernel.kill

    def remote(self, call: str) -> Any:
        """Ask as the server extension does."""
        from kernels import REMOTE

        return self._kernel.ask(f"{REMOTE}.{call}", timeout=LIMIT_S)

    def probe(self, probe: str) -> str:
        """Return what is wrong, or nothing."""
        code = probe[1:] if probe.startswith("!") else f"assert ({probe}), 'it is false'"
        try:
            self._kernel.run(code, timeout=LIMIT_S, store_history=False)
        except (AssertionError, queue.Empty, TimeoutError) as error:
            last = re.sub(r"\x1b\[[0-9;]*m", "", str(error) or type(error).__name__)
            return last.strip().splitlines()[-1]
        return ""


def main(names: list[str]) -> int:
    """Print the table; return 0 if nothing is lost silently."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    counts: Counter[str] = Counter()
    for state in states():
        if names and state["name"] not in names:
            continue
        verdict = judge(state)
        counts[verdict.kind] += 1
        print(verdict.row(), flush=True)
        if names or verdict.kind in ("WRONG", "restore-err", "refuse-all"):
            for name, reason in verdict.refused.items():
                print(f"    refused {name}: {reason}")
            for line in verdict.failed:
                print(f"    fails   {line}")
        if verdict.error:
            print(f"    {verdict.error}")
    print(dict(counts))
    return 1 if counts["WRONG"] + counts["restore-err"] + counts["refuse-all"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
