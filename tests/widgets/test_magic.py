"""``%devcluster`` in a real IPython shell, against a manager over real HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from devcluster.core.lifecycle import MoveKind, State
from devcluster.core.records import KernelPlan, Plan, PlanAnswer, VariablePlan
from devcluster.core.resources import Gpu
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from tests.support.stub_manager import FLAVORS, GIB, StubManager, move, step, stub_manager

ME = "alice/default"


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubManager]:
    with stub_manager() as (stub, url):
        monkeypatch.setenv("DEVCLUSTER_URL", url)
        monkeypatch.setenv("DEVCLUSTER_TOKEN", "alices-token")
        monkeypatch.setenv("DEVCLUSTER_WORKSPACE", ME)
        gpu = Gpu(uuid="GPU-1", model="A100", memory=80 * GIB)
        stub.set(ME, state=State.running, flavor="1xA100", host="a100-1", gpus=[gpu])
        yield stub


@pytest.fixture
def shell(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> InteractiveShell:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell(config=config)
    shell.extension_manager.load_extension("devcluster.widgets")
    return shell


def test_status_tells_where_it_runs(
    shell: InteractiveShell, stub: StubManager, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell.run_line_magic("devcluster", "status") is None
    assert capsys.readouterr().out == "alice/default is running: 1xA100 on a100-1 (A100)\n"
    assert stub.tokens == {"token alices-token"}


def test_status_as_json_is_for_programs(
    shell: InteractiveShell, stub: StubManager, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_line_magic("devcluster", "status --json")
    found = json.loads(capsys.readouterr().out)
    assert (found["id"], found["host"], found["state"]) == (ME, "a100-1", "running")


def test_flavors_mark_the_current_one(
    shell: InteractiveShell, stub: StubManager, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_line_magic("devcluster", "flavors")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["flavor", "cpu", "*"]
    assert lines[2].split()[1:3] == ["1xA100", "8"]
    assert lines[2].endswith("0 of 2")


@pytest.mark.parametrize(
    ("line", "flavor"), [("resize cpu", "cpu"), ("resize gpu=1 model=a100", "1xA100")]
)
def test_resize_asks_and_returns_at_once(
    shell: InteractiveShell,
    stub: StubManager,
    capsys: pytest.CaptureFixture[str],
    line: str,
    flavor: str,
) -> None:
    stub.on["POST", "switch"] = lambda _path, _body: move("running", MoveKind.switch)
    result = shell.run_cell(f"%devcluster {line}")
    assert result.success
    assert result.result is None
    assert not shell.user_ns["Out"]
    assert stub.calls("POST", f"{ME}/switch") == [
        {"flavor": flavor, "on_busy": "wait", "on_loss": "ask"}
    ]
    assert "begins when this cell has ended" in capsys.readouterr().out


def test_deflate_inflate_and_cancel(
    shell: InteractiveShell, stub: StubManager, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.on["POST", "deflate"] = lambda _path, _body: move("running", MoveKind.deflate)
    stub.on["POST", "inflate"] = lambda _path, _body: move("running", MoveKind.inflate)
    stub.on["POST", "cancel"] = lambda _path, _body: move(
        "cancelled", MoveKind.switch, flavor="cpu", reason="Cancelled by alice."
    )
    for line in ("deflate", "inflate", "inflate cpu", "cancel"):
        shell.run_line_magic("devcluster", line)
    assert stub.calls("POST", "deflate") == [{"on_busy": "wait", "on_loss": "ask"}]
    assert stub.calls("POST", "inflate") == [{"flavor": None}, {"flavor": "cpu"}]
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "switch to cpu: cancelled. Cancelled by alice."


def test_plan_names_what_would_be_lost(
    shell: InteractiveShell, stub: StubManager, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = [
        VariablePlan(name="frame", kind="carried", bytes=2048),
        VariablePlan(name="gen", kind="refused", reason="is a generator.", remedy="Make a list."),
    ]
    kernel = KernelPlan(
        kernel_id="k", kernel_name="python3", title="a.ipynb", bytes=2048, variables=variables
    )
    plan = Plan(kernels=[kernel], terminals=1)
    stub.on["POST", "plan"] = lambda _path, _body: PlanAnswer(
        flavor=FLAVORS[1].flavor, free=False, plan=plan
    )
    shell.run_line_magic("devcluster", "plan gpu=1")
    assert capsys.readouterr().out.splitlines() == [
        "1 × A100 is not free now: the switch would be queued.",
        "  a.ipynb: 1 variables, 2 KiB",
        "Would not survive:",
        "  gen: is a generator. Make a list.",
        "  1 open terminal: running programs end with the host.",
    ]
    assert stub.calls("POST", "switch") == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("resize 8xH200", "There is no flavor '8xH200'. Allowed: cpu, 1xA100."),
        ("resize gpu=-2", "gpu=-2 is no count of GPUs"),
        ("resize gpu=1 model=H200", "Allowed: cpu, 1xA100."),
        ("nonsense", "Allowed: status, flavors"),
    ],
)
def test_bad_input_is_told_without_a_traceback_and_changes_nothing(
    shell: InteractiveShell, stub: StubManager, line: str, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        shell.run_line_magic("devcluster", line)
    assert said in str(caught.value)
    assert stub.calls("POST", "switch") == []


def test_the_managers_refusal_is_told_in_its_words(
    shell: InteractiveShell, stub: StubManager
) -> None:
    with pytest.raises(UsageError, match="the stub knows no POST"):
        shell.run_line_magic("devcluster", "cancel")


def test_outside_a_workspace_the_magic_explains(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEVCLUSTER_URL", raising=False)
    monkeypatch.delenv("DEVCLUSTER_WORKSPACE", raising=False)
    with pytest.raises(UsageError, match="does not run in a Dev Cluster workspace"):
        shell.run_line_magic("devcluster", "status")


def test_a_manager_that_does_not_answer_is_told(
    shell: InteractiveShell, stub: StubManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVCLUSTER_URL", "http://127.0.0.1:9")
    with pytest.raises(UsageError, match="does not answer"):
        shell.run_line_magic("devcluster", "status")


def test_b48_control_characters_are_escaped_in_text(
    shell: InteractiveShell, stub: StubManager, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "\x1b[2J\u202e\r\n<script>"
    failed = move("failed", MoveKind.switch, reason=hostile, steps=[step("prepare")])
    stub.set(ME, reason=hostile, host=hostile, move=failed)
    shell.run_line_magic("devcluster", "status")
    said = capsys.readouterr().out
    assert "\\x1b[2J\\u202e\\r\\n<script>" in said
    assert not {"\x1b", "\u202e", "\r"} & set(said)


def test_loading_imports_nothing_heavy() -> None:
    code = (
        "import sys, time; from types import SimpleNamespace as N; began = time.perf_counter();"
        "import devcluster.widgets as w;"
        "w.load_ipython_extension(N(register_magic_function=lambda *_: None));"
        "took = time.perf_counter() - began;"
        "print(sorted({'httpx', 'pydantic', 'anywidget', 'ipywidgets'} & set(sys.modules)), took)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    imported, _, took = done.stdout.strip().rpartition(" ")
    assert imported == "[]"
    assert float(took) < 0.5  # 1 ms in quiet; the limit is for a machine under load
