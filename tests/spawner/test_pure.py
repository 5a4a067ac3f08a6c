"""The form, the options and the story: values in, values out."""

from __future__ import annotations

import re

import pytest
from devcluster.core.errors import BadRequest
from devcluster.core.lifecycle import STEPS, MoveKind, State, Wish
from devcluster.core.records import FlavorView
from devcluster.core.resources import Flavor
from devcluster.spawner import form, options, sealed, story
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.stub_manager import FLAVORS, StubManager, move, step

OFFERED = [view.flavor for view in FLAVORS]


# --- options ------------------------------------------------------------------------


def test_the_first_flavor_is_taken_where_none_is_chosen() -> None:
    assert options.chosen_flavor({}, OFFERED).name == "cpu"
    assert options.chosen_flavor({}, OFFERED, "1xA100").name == "1xA100"


@pytest.mark.parametrize(
    "asked",
    [
        {"flavor": "9xH100"},
        {"flavor": ["cpu", "1xA100"]},
        {"flavor": None},
        {"flavor": {"name": "cpu"}},
        {"flavor": "cpu", "env": {"NVIDIA_VISIBLE_DEVICES": "all"}},
        {"NVIDIA_VISIBLE_DEVICES": "all"},
        {"LD_PRELOAD": "/tmp/x.so"},
        {"flavor": "cpu", "cmd": "sh"},
        ["cpu"],
        "cpu",
        7,
    ],
)
def test_b61_options_are_an_allow_list(asked: object) -> None:
    with pytest.raises(BadRequest) as refused:
        options.chosen_flavor(asked, OFFERED)
    assert re.search(r"Allowed: |such as", refused.value.message)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.text(), st.none() | st.text() | st.lists(st.text()), max_size=4)
    | st.none()
    | st.text()
)
def test_any_body_gives_a_known_flavor_or_a_bad_request(asked: object) -> None:
    try:
        assert options.chosen_flavor(asked, OFFERED) in OFFERED
    except BadRequest:
        assert asked != {}


def test_form_fields_are_single_values_and_a_doubled_one_is_refused_later() -> None:
    assert options.from_form({"flavor": ["cpu"], "_xsrf": ["x"]}) == {"flavor": "cpu"}
    with pytest.raises(BadRequest):
        options.chosen_flavor(options.from_form({"flavor": ["cpu", "1xA100"]}), OFFERED)


# --- form ----------------------------------------------------------------------------


def test_the_form_marks_the_first_free_flavor_and_tells_how_many_are_free() -> None:
    html = form.flavors_form(FLAVORS)
    assert html.count('type="radio"') == 2
    assert re.findall(r'value="([^"]+)" required checked', html) == ["cpu"]
    assert "3 free" in html
    assert "none free: you queue" in html


def test_the_last_used_flavor_is_marked_if_it_is_free() -> None:
    both = [view.model_copy(update={"free": 1}) for view in FLAVORS]
    assert form.preselected(both, "1xA100") == "1xA100"
    assert form.preselected(FLAVORS, "1xA100") == "cpu"
    assert form.preselected([FLAVORS[1]], None) == "1xA100"


@pytest.mark.parametrize("text", ["<img src=x onerror=alert(1)>", "</script><script>", '"><b>'])
def test_b48_the_form_escapes_what_comes_from_outside(text: str) -> None:
    flavor = Flavor(name="x", title=text, gpu_model=text, gpus=1, cpus=1, memory=1)
    for html in (
        form.flavors_form([FlavorView(flavor=flavor, free=1, total=1)]),
        form.unreachable_form(text),
    ):
        assert text not in html
        assert "&lt;" in html


# --- story ---------------------------------------------------------------------------


def test_b35_only_what_surely_ended_has_an_exit_status() -> None:
    said = {state: story.exit_status(state) for state in State}
    assert {state for state, status in said.items() if status is not None} == {
        State.created,
        State.stopped,
        State.failed,
    }
    assert said[State.failed] != 0


def test_progress_tells_the_place_in_the_queue() -> None:
    view = StubManager().set(
        state=State.starting,
        move=move("queued", flavor="1xA100", place=2, reason="Both A100 are taken."),
    )
    event = story.progress_event(view)
    assert event["message"] == "Waiting for 1xA100, 2nd in the queue. Both A100 are taken."


def test_progress_rises_from_step_to_step() -> None:
    seen = []
    names = [one.value for one in STEPS[MoveKind.start]]
    for done in range(len(names)):
        steps = [step(n, 1.0, 2.0) for n in names[:done]] + [step(names[done])]
        view = StubManager().set(state=State.starting, move=move(steps=steps))
        seen.append(story.progress_event(view)["progress"])
    view = StubManager().set(state=State.running, move=move("done"))
    seen.append(story.progress_event(view)["progress"])
    assert seen == sorted(set(seen))
    assert seen[0] > 0
    assert seen[-1] < 100


@pytest.mark.parametrize(
    ("number", "text"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd")]
)
def test_places_read_well(number: int, text: str) -> None:
    assert story.ordinal(number) == text


def test_a_failure_from_before_the_start_does_not_end_the_start() -> None:
    stub = StubManager()
    old = stub.set(state=State.failed, move=move("failed", id="old"))
    assert not story.is_over(old, old)
    new = stub.set(state=State.failed, move=move("failed", id="new"))
    assert story.is_over(old, new)
    assert story.is_over(None, new)
    stopped = stub.set(state=State.stopped, wish=Wish.stopped)
    assert story.is_over(old, stopped)


# --- what the hub keeps ------------------------------------------------------------------


def test_a_kept_token_is_readable_only_with_the_secret() -> None:
    kept = sealed.seal("hub-token", "s3")
    assert "hub-token" not in kept
    assert sealed.unseal(kept, "s3") == "hub-token"
    assert sealed.unseal(kept, "other") == ""
    assert sealed.unseal("", "s3") == ""
