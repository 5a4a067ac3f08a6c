"""The command against a manager over HTTP: output, exit statuses, questions."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import Result
from devcluster.cli.app import app
from devcluster.core.errors import Conflict, Forbidden, NoSpace
from devcluster.core.lifecycle import MoveKind, State
from devcluster.core.records import Question
from typer.testing import CliRunner

from tests.support.stub_manager import StubManager, move, step, stub_manager


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubManager]:
    with stub_manager() as (one, url):
        monkeypatch.setenv("DEVCLUSTER_URL", url)
        monkeypatch.setenv("DEVCLUSTER_TOKEN", "t0")
        yield one


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})


def test_ls_shows_workspaces_and_sends_the_token(stub: StubManager) -> None:
    stub.set(state=State.running, host="cpu-1", flavor="cpu")
    result = run("ls")
    assert result.exit_code == 0, result.output
    assert "alice/default" in result.stdout
    assert "cpu-1" in result.stdout
    assert stub.tokens == {"token t0"}


def test_json_is_the_records_and_nothing_else(stub: StubManager) -> None:
    stub.set(state=State.running)
    for words, kind in ((("ls",), list), (("flavors",), list), (("show", "alice"), dict)):
        result = run(*words, "--json")
        assert result.exit_code == 0, result.output
        assert isinstance(json.loads(result.stdout), kind)
    assert json.loads(run("show", "alice", "--json").stdout)["id"] == "alice/default"


@pytest.mark.parametrize(
    ("options", "flavor"),
    [
        (["--gpu", "1", "--model", "a100"], "1xA100"),
        (["--gpu", "1"], "1xA100"),
        (["--flavor", "1xA100"], "1xA100"),
        (["--cpu"], "cpu"),
        (["--gpu", "0"], "cpu"),
    ],
)
def test_switch_names_the_flavor_in_any_way(
    stub: StubManager, options: list[str], flavor: str
) -> None:
    stub.on["POST", "switch"] = lambda _path, _body: move("queued", MoveKind.switch, place=2)
    result = run("switch", "alice", *options, "--no-wait", "--json")
    assert result.exit_code == 0, result.output
    assert stub.calls("POST", "/switch") == [{"flavor": flavor, "on_busy": "ask", "on_loss": "ask"}]
    assert json.loads(result.stdout)["place"] == 2


@pytest.mark.parametrize(
    "words",
    [
        ["switch", "alice"],
        ["switch", "alice", "--gpu", "1", "--cpu"],
        ["switch", "alice", "--cpu", "--model", "A100"],
        ["switch", "alice", "--gpu", "-1"],
        ["switch", "alice", "--gpu", "7"],
        ["switch", "alice", "--gpu", "1", "--model", "H100"],
        ["switch", "alice", "--gpu", "many"],
        ["switch", "a/b/c", "--cpu"],
        ["switch", "alice", "--cpu", "--on-busy", "sometimes"],
        ["show", "nobody"],
        ["nonsense"],
    ],
)
def test_a_bad_request_ends_with_2_and_changes_nothing(stub: StubManager, words: list[str]) -> None:
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert result.stderr
    assert not [asked for asked in stub.asked if asked[0] != "GET"]


def test_an_unknown_gpu_count_is_answered_with_what_there_is(stub: StubManager) -> None:
    assert "Allowed: cpu, 1xA100" in run("switch", "alice", "--gpu", "7").stderr


def test_errors_have_their_exit_statuses(stub: StubManager) -> None:
    for error, status in (
        (Conflict("It is being stopped."), 4),
        (Forbidden("Not yours."), 2),
        (NoSpace("Full."), 1),
    ):

        def fail(_path: str, _body: Any, error: Exception = error) -> None:
            raise error

        stub.on["POST", "switch"] = fail
        result = run("switch", "alice", "--cpu", "--json")
        assert result.exit_code == status
        assert result.stdout == ""
        assert json.loads(result.stderr)["message"] == str(error)


def test_no_manager_ends_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    with stub_manager() as (_, url):
        pass
    monkeypatch.setenv("DEVCLUSTER_URL", url)
    monkeypatch.setenv("DEVCLUSTER_TOKEN", "t0")
    result = run("ls")
    assert result.exit_code == 3
    assert "does not answer" in result.stderr


def test_no_address_tells_how_to_give_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEVCLUSTER_URL", "DEVCLUSTER_TOKEN", "JUPYTERHUB_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    result = run("ls")
    assert result.exit_code == 2
    assert "DEVCLUSTER_URL" in result.stderr


def _ends_later(stub: StubManager, *views: Any) -> None:
    """Begin a switch whose later stages come one by one, each after the one before was seen."""
    begun = move("running", MoveKind.switch, steps=[step("prepare")])

    def begin(_path: str, _body: Any) -> Any:
        first = stub.set(move=begun).move
        threading.Thread(target=go_on, daemon=True).start()
        return first

    def go_on() -> None:
        for view in views:
            seen = len(stub.asked)
            with stub.changed:
                stub.changed.wait_for(lambda seen=seen: len(stub.asked) > seen or stub.over, 5)
            stub.set(move=view)

    stub.on["POST", "switch"] = begin


@pytest.mark.parametrize(("status", "exit_code"), [("done", 0), ("failed", 1), ("cancelled", 1)])
def test_switch_follows_the_move_to_its_end(stub: StubManager, status: str, exit_code: int) -> None:
    stub.set(state=State.running)
    steps = [step("prepare", 1.0, 2.0), step("capture", 2.0, 2.5)]
    _ends_later(stub, move(status, MoveKind.switch, steps=steps, reason="why not"))
    result = run("switch", "alice", "--cpu")
    assert result.exit_code == exit_code, result.output
    assert "prepare" in result.stderr
    assert "why not" in result.stdout


def test_a_question_without_anybody_to_ask_ends_with_4_and_says_how_to_answer(
    stub: StubManager,
) -> None:
    stub.set(state=State.running)
    question = Question(
        kind="loss", text="1 variable stays.", items=["f: a file"], choices=["accept", "cancel"]
    )
    _ends_later(stub, move("asking", MoveKind.switch, question=question))
    result = run("switch", "alice", "--cpu")
    assert result.exit_code == 4
    assert "devcluster answer alice/default CHOICE (accept, cancel)" in result.stderr
    assert "f: a file" in result.stderr


def test_yes_asks_nothing(stub: StubManager) -> None:
    stub.on["POST", "deflate"] = lambda _path, _body: move("queued", MoveKind.deflate)
    assert run("deflate", "alice", "--yes", "--no-wait").exit_code == 0
    assert stub.calls("POST", "/deflate") == [{"on_busy": "wait", "on_loss": "accept"}]


def test_answer_goes_to_the_move_that_asks(stub: StubManager) -> None:
    question = Question(kind="busy", text="A cell runs.", choices=["wait", "cancel"])
    stub.set(state=State.running, move=move("asking", MoveKind.switch, id="m7", question=question))
    stub.on["POST", "answer"] = lambda _path, _body: move("running", MoveKind.switch, id="m7")
    assert run("answer", "alice", "wait", "--no-wait").exit_code == 0
    assert stub.calls("POST", "/answer") == [{"move": "m7", "choice": "wait"}]
