"""What a kernel still owes an answer to."""

from __future__ import annotations

from devcluster.server_ext.requests import Requests
from hypothesis import given
from hypothesis import strategies as st

MAIN, OTHER = ("socket", None), ("socket", "subshell")


def test_a_request_is_owed_from_before_it_is_passed_on_until_idle() -> None:
    requests = Requests()
    assert not requests.busy
    requests.passing("a", "execute_request", MAIN)
    assert requests.busy
    requests.began("a", "execute_request")
    requests.ended("a", "execute_request")
    assert not requests.busy


def test_a_cell_queued_behind_another_is_owed() -> None:
    requests = Requests()
    for request in "ab":
        requests.passing(request, "execute_request", MAIN)
    requests.began("a", "execute_request")
    requests.ended("a", "execute_request")
    assert requests.busy


def test_what_came_earlier_on_a_route_has_had_its_turn_with_a_later_one() -> None:
    requests = Requests()
    requests.passing("cell", "execute_request", MAIN)
    requests.began("cell", "execute_request")
    requests.passing("silent", "comm_msg", MAIN)
    requests.passing("elsewhere", "comm_msg", OTHER)
    requests.passing("later", "execute_request", MAIN)
    requests.ended("cell", "execute_request")
    assert requests.silent() == {MAIN: ["silent", "later"], OTHER: ["elsewhere"]}
    requests.ended("later", "execute_request")
    assert requests.silent() == {OTHER: ["elsewhere"]}


def test_nothing_is_silent_while_a_cell_runs() -> None:
    requests = Requests()
    requests.passing("cell", "execute_request", MAIN)
    requests.began("cell", "execute_request")
    requests.passing("comm", "comm_msg", MAIN)
    assert requests.silent() == {}


def test_control_requests_keep_nobody_busy() -> None:
    requests = Requests()
    requests.began("d", "debug_request")
    assert not requests.busy
    requests.passing("a", "execute_request", MAIN)
    requests.began("a", "execute_request")
    requests.ended("d", "debug_request")
    assert requests.busy


def test_a_cell_that_ran_before_we_looked_ends_with_the_next_idle() -> None:
    requests = Requests()
    requests.found_busy()
    assert requests.busy
    requests.ended("unknown", "execute_request")
    assert not requests.busy


def test_a_cell_of_another_client_counts() -> None:
    requests = Requests()
    requests.began("console's", "execute_request")
    assert requests.busy
    requests.ended("console's", "execute_request")
    assert not requests.busy
    assert requests.passed_on == 1


def test_asking_for_the_kernels_info_is_no_change() -> None:
    requests = Requests()
    requests.passing("i", "kernel_info_request", MAIN)
    requests.began("i", "kernel_info_request")
    requests.ended("i", "kernel_info_request")
    assert (requests.busy, requests.passed_on) == (False, 0)


def test_a_restart_drops_all() -> None:
    requests = Requests()
    requests.passing("a", "execute_request", MAIN)
    requests.began("a", "execute_request")
    requests.passing("b", "execute_request", MAIN)
    requests.restarted()
    assert not requests.busy


@given(st.lists(st.sampled_from([MAIN, OTHER]), max_size=12), st.data())
def test_no_cell_is_forgotten_before_its_idle(routes: list, data: st.DataObject) -> None:
    """Whatever the order in which two queues advance, and which comms are answered silently."""
    requests = Requests()
    queues: dict = {MAIN: [], OTHER: []}
    for number, route in enumerate(routes):
        kind = data.draw(st.sampled_from(["execute_request", "comm_msg"]))
        requests.passing(str(number), kind, route)
        queues[route].append((str(number), kind))
    while queues[MAIN] or queues[OTHER]:
        route = data.draw(st.sampled_from([r for r in queues if queues[r]]))
        request, kind = queues[route].pop(0)
        if kind == "comm_msg" and data.draw(st.booleans()):
            continue
        assert requests.busy
        requests.began(request, kind)
        assert requests.busy
        requests.ended(request, kind)
        owed = {r for queue in queues.values() for r, k in queue if k == "execute_request"}
        assert owed <= {r for rs in requests.silent().values() for r in rs}
    for waiting in requests.silent().values():
        requests.forget(waiting)
    assert not requests.busy
