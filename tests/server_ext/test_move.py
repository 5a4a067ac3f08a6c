"""A workspace's kernels and sessions move from one real server to another."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from devcluster.core.errors import BadRequest, Conflict, NotFound, StepFailed

from .conftest import HUB_TOKEN, SECRET, TOKEN, Open, Server


def hints(*sessions: dict[str, Any]) -> dict[str, Any]:
    return {
        "kernels": [
            {
                "kernel_id": session["kernel"]["id"],
                "kernel_name": session["kernel"]["name"],
                "path": session["path"].rpartition("/")[0],
                "modules": ["json", "no_such_module"],
            }
            for session in sessions
        ]
    }


async def test_kernels_and_sessions_come_back_under_the_same_ids(
    source: Server, target: Server, tab: Open, place: dict[str, str]
) -> None:
    (source.home / "work").mkdir(exist_ok=True)
    (target.home / "work").mkdir(exist_ok=True)
    first, second = source.new_notebook("a.ipynb"), source.new_notebook("work/b.ipynb")
    one = await tab(source, first["kernel"]["id"])
    await one.run("x = 41")
    await one.run("y = [x]; x")
    two = await tab(source, second["kernel"]["id"])
    await two.run("name = 'second'")

    report = await source.control("POST", "capture", place)
    assert {kernel["title"] for kernel in report["kernels"]} == {"a.ipynb", "b.ipynb"}
    await target.control("POST", "warm", hints(first))  # the second is started by restore
    restored = await target.control("POST", "restore", place)

    assert len(restored["kernels"]) == 2
    kept = ("id", "path", "name", "type")
    assert {(*(s[k] for k in kept), s["kernel"]["id"]) for s in (first, second)} == {
        (*(s[k] for k in kept), s["kernel"]["id"]) for s in target.api("GET", "sessions")
    }
    one = await tab(target, first["kernel"]["id"])
    assert await one.value("(x, y)") == "(41, [41])"
    assert (await one.run("x + 1"))["execution_count"] == 3
    assert await one.value("__import__('os').environ['JPY_SESSION_NAME']") == repr(
        str(target.home / "a.ipynb")
    )
    two = await tab(target, second["kernel"]["id"])
    assert await two.value("name") == "'second'"


async def test_capture_and_restore_of_a_small_state_are_quick(
    source: Server, target: Server, tab: Open, place: dict[str, str]
) -> None:
    session = source.new_notebook()
    one = await tab(source, session["kernel"]["id"])
    await one.run("x = 1")
    await source.control("POST", "plan")
    await target.control("POST", "warm", hints(session))
    began = time.perf_counter()
    await source.control("POST", "capture", place)
    captured = time.perf_counter()
    await target.control("POST", "restore", place)
    restored = time.perf_counter()
    print(f"capture {captured - began:.3f} s, restore {restored - captured:.3f} s")
    assert captured - began < 1.5
    assert restored - captured < 2


async def test_asking_again_answers_the_same_and_does_nothing(
    source: Server, target: Server, tab: Open, place: dict[str, str]
) -> None:
    session = source.new_notebook()
    one = await tab(source, session["kernel"]["id"])
    await one.run("x = 1")
    first = await source.control("POST", "capture", place)
    written = {file: file.stat().st_mtime_ns for file in Path(place["path"]).iterdir()}
    assert await source.control("POST", "capture", place) == first
    assert {file: file.stat().st_mtime_ns for file in Path(place["path"]).iterdir()} == written

    report = await target.control("POST", "restore", place)
    two = await tab(target, session["kernel"]["id"])
    await two.run("x = 'changed on the target'")
    assert await target.control("POST", "restore", place) == report
    assert await two.value("x") == "'changed on the target'"
    assert len(target.api("GET", "sessions")) == 1


async def test_a_capture_that_was_undone_is_made_anew(
    source: Server, target: Server, tab: Open, place: dict[str, str]
) -> None:
    session = source.new_notebook()
    one = await tab(source, session["kernel"]["id"])
    await one.run("x = 1")
    await source.control("POST", "capture", place)
    await source.control("POST", "resume")
    await source.control("POST", "resume")
    await one.run("x = 2")
    await source.control("POST", "capture", place)
    await target.control("POST", "restore", place)
    assert await (await tab(target, session["kernel"]["id"])).value("x") == "2"


async def test_a_cell_that_slipped_in_after_a_capture_makes_it_stale(
    source: Server, target: Server, tab: Open, place: dict[str, str]
) -> None:
    session = source.new_notebook()
    one = await tab(source, session["kernel"]["id"])
    await one.run("x = 1")
    await source.control("POST", "capture", place)
    await one.run("x = 2")
    await source.control("POST", "capture", place)
    await target.control("POST", "restore", place)
    assert await (await tab(target, session["kernel"]["id"])).value("x") == "2"


async def test_our_questions_leave_no_trace(
    source: Server, tab: Open, place: dict[str, str]
) -> None:
    session = source.new_notebook()
    one = await tab(source, session["kernel"]["id"])
    await one.run("x = 1")
    names = await one.value("sorted(globals())")
    await source.control("POST", "plan")
    await source.control("POST", "capture", place)
    assert await one.value("sorted(globals())") == names
    assert await one.value("In") == "['', 'x = 1']"
    assert (await one.run("x"))["execution_count"] == 2
    parents = {m["parent_header"].get("session", one.session) for m in one.messages}
    assert parents <= {one.session}  # the tab saw nothing of what we asked


async def test_neither_shadowed_builtins_nor_formatters_keep_us_from_asking(
    source: Server, target: Server, tab: Open, place: dict[str, str]
) -> None:
    session = source.new_notebook()
    one = await tab(source, session["kernel"]["id"])
    await one.run("type = repr = str = print = 'mine'")
    await one.run(
        "get_ipython().display_formatter.formatters['text/plain'].for_type("
        "''.__class__, lambda s, p, c: p.text('SHOUTED'))"
    )
    await source.control("POST", "capture", place)
    await target.control("POST", "restore", place)
    two = await tab(target, session["kernel"]["id"])
    assert await two.value("[type, repr]") == "['mine', 'mine']"


async def test_b46_a_capture_holds_no_token_and_is_for_its_owner_alone(
    source: Server, tab: Open, place: dict[str, str]
) -> None:
    one = await tab(source, source.new_notebook()["kernel"]["id"])
    await one.run("x = 1")
    await source.control("POST", "capture", place)
    folder = Path(place["path"])
    assert folder.stat().st_mode & 0o777 == 0o700
    files = list(folder.iterdir())
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    for file in files:
        for secret in (HUB_TOKEN, TOKEN, SECRET):
            assert secret.encode() not in file.read_bytes(), file


async def test_kernels_do_not_inherit_the_secret(source: Server, tab: Open) -> None:
    one = await tab(source, source.new_notebook()["kernel"]["id"])
    assert await one.value("'DEVCLUSTER_CONTROL' in __import__('os').environ") == "False"


async def test_kernels_of_other_languages_come_back_empty(
    source: Server, target: Server, tab: Open, place: dict[str, str]
) -> None:
    session = source.new_notebook("echo.txt", kernel="echo")
    (plan,) = (await source.control("POST", "plan"))["kernels"]
    assert plan["portable"] is False
    assert plan["reason"] == "restarts empty: only IPython kernels can be moved."
    await source.control("POST", "capture", place)
    await target.control("POST", "restore", place)
    (back,) = target.api("GET", "sessions")
    assert (back["id"], back["kernel"]["id"]) == (session["id"], session["kernel"]["id"])
    assert (await (await tab(target, session["kernel"]["id"])).run("hello"))["status"] == "ok"


async def test_warm_kernels_that_are_not_captured_are_ended(
    source: Server, target: Server, place: dict[str, str]
) -> None:
    kept, dropped = source.new_notebook("a.ipynb"), source.new_notebook("b.ipynb")
    await target.control("POST", "warm", hints(kept, dropped))
    await target.control("POST", "warm", hints(kept, dropped))
    assert len(target.api("GET", "kernels")) == 2
    source.api("DELETE", f"sessions/{dropped['id']}")
    await source.control("POST", "capture", place)
    await target.control("POST", "restore", place)
    assert [k["id"] for k in target.api("GET", "kernels")] == [kept["kernel"]["id"]]


async def test_a_missing_kernelspec_is_named(target: Server) -> None:
    hint = {"kernel_id": "k", "kernel_name": "julia-1.9"}
    with pytest.raises(BadRequest, match=r"no kernel named 'julia-1\.9'.*python3"):
        await target.control("POST", "warm", {"kernels": [hint]})
    assert target.api("GET", "kernels") == []


async def test_a_kernel_in_use_is_not_overwritten(
    source: Server, tab: Open, place: dict[str, str]
) -> None:
    one = await tab(source, source.new_notebook()["kernel"]["id"])
    await one.run("x = 1")
    await source.control("POST", "capture", place)
    with pytest.raises(Conflict, match=r"a\.ipynb is in use"):
        await source.control("POST", "restore", place)
    assert await one.value("x") == "1"


async def test_a_load_that_fails_names_the_kernel_and_can_be_tried_again(
    source: Server, target: Server, tab: Open, place: dict[str, str]
) -> None:
    session = source.new_notebook()
    one = await tab(source, session["kernel"]["id"])
    await one.run("x = 1")
    await source.control("POST", "capture", place)
    (state,) = Path(place["path"]).glob("*.state")
    whole = state.read_bytes()
    state.write_bytes(b"x" * len(whole))
    with pytest.raises(StepFailed, match=r"state of a\.ipynb could not be restored") as failed:
        await target.control("POST", "restore", place)
    assert failed.value.details["kernel"] == session["kernel"]["id"]
    assert target.api("GET", "sessions") == []
    state.write_bytes(whole)
    await target.control("POST", "restore", place)
    assert await (await tab(target, session["kernel"]["id"])).value("x") == "1"


async def test_a_save_that_fails_leaves_no_capture(
    source: Server, tab: Open, place: dict[str, str]
) -> None:
    one = await tab(source, source.new_notebook()["kernel"]["id"])
    await one.run("x = 1")
    source.fault("server.one.capture.saved", "raise the disk is gone")
    with pytest.raises(StepFailed, match="the disk is gone"):
        await source.control("POST", "capture", place)
    assert list(Path(place["path"]).iterdir()) == []
    await source.control("POST", "capture", place)
    assert (Path(place["path"]) / "complete").read_text() == place["capture"]


@pytest.mark.parametrize("point", ["restore", "restore.kernels"])
async def test_a_restore_that_was_cut_is_taken_up_again(
    source: Server, target: Server, tab: Open, place: dict[str, str], point: str
) -> None:
    session = source.new_notebook()
    one = await tab(source, session["kernel"]["id"])
    await one.run("x = 1")
    await source.control("POST", "capture", place)
    target.fault(f"server.two.{point}", "raise cut")
    with pytest.raises(StepFailed, match="cut"):
        await target.control("POST", "restore", place)
    await target.control("POST", "restore", place)
    two = await tab(target, session["kernel"]["id"])
    assert await two.value("x") == "1"
    assert (await two.run("x"))["execution_count"] == 2
    assert len(target.api("GET", "sessions")) == 1


async def test_a_capture_without_its_marker_is_none(
    source: Server, target: Server, place: dict[str, str]
) -> None:
    source.new_notebook()
    await source.control("POST", "capture", place)
    (Path(place["path"]) / "complete").unlink()
    with pytest.raises(NotFound, match="no complete capture"):
        await target.control("POST", "restore", place)


async def test_a_state_cut_short_is_refused_before_anything_starts(
    source: Server, target: Server, place: dict[str, str]
) -> None:
    source.new_notebook()
    await source.control("POST", "capture", place)
    (state,) = Path(place["path"]).glob("*.state")
    os.truncate(state, 3)
    with pytest.raises(Conflict, match="damaged"):
        await target.control("POST", "restore", place)
    assert target.api("GET", "kernels") == []
