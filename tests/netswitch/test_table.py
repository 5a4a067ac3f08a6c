"""The routing table, without sockets."""

from __future__ import annotations

import pytest
from devcluster.agent.netswitch.table import Change, PrefixMap, check, judge, origin_form, segments
from devcluster.core.errors import BadRequest, Conflict, Stale
from devcluster.core.names import object_name
from devcluster.core.records import Route
from hypothesis import given
from hypothesis import strategies as st


def route(revision: int = 1, mode: str = "open", **more: object) -> Route:
    fields: dict[str, object] = {
        "workspace": "alice/default",
        "prefix": "/user/alice/",
        "revision": revision,
        "mode": mode,
        "backend": "http://127.0.0.1:9",
        "lease": "L1",
    }
    return Route(**{**fields, **more})


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/user/alice/lab", "alice"),
        ("/user/alice", "alice"),
        ("/user/alice/two", "two"),
        ("/user/alice/two/api?x=/user/bob/", "two"),
        ("/user/alice/twofold", "alice"),
        ("/user/alicea/lab", None),
        ("/user/", None),
        ("/", None),
        ("", None),
        ("/user/a%40b/lab", "at"),
        ("/user/a@b/lab", "at"),
        ("/user/c%2Fd/x", "slash"),
        ("/user/c/d/x", None),
        ("/user/alice/../bob/", "alice"),
        ("//user/alice/", None),
        ("/user/\udcff/", None),
    ],
)
def test_the_longest_prefix_wins_however_it_is_encoded(target: str, expected: str | None) -> None:
    table: PrefixMap[str] = PrefixMap()
    table.set("/user/alice/", "alice")
    table.set("/user/alice/two/", "two")
    table.set("/user/a%40b/", "at")
    table.set("/user/c%2Fd/", "slash")
    assert table.match(target) == expected


def test_a_removed_prefix_matches_no_more() -> None:
    table: PrefixMap[str] = PrefixMap()
    table.set("/user/alice/", "alice")
    table.remove("/user/alice/")
    table.remove("/user/alice/")
    assert table.match("/user/alice/lab") is None


@given(
    prefixes=st.lists(
        st.lists(st.sampled_from(["a", "b", "%40"]), max_size=3).map(tuple), unique=True
    ),
    path=st.lists(st.sampled_from(["a", "b", "%40", ""]), max_size=5),
)
def test_match_is_the_longest_of_all_that_fit(
    prefixes: list[tuple[str, ...]], path: list[str]
) -> None:
    table: PrefixMap[tuple[str, ...]] = PrefixMap()
    for prefix in prefixes:
        table.set("/" + "".join(f"{part}/" for part in prefix), prefix)
    fitting = [p for p in prefixes if tuple(path[: len(p)]) == p]
    assert table.match("/" + "/".join(path)) == (max(fitting, key=len) if fitting else None)


def test_absolute_targets_lose_scheme_and_host() -> None:
    assert origin_form("http://evil.example/user/alice/?q=1") == "/user/alice/?q=1"
    assert origin_form("/user/alice/?next=http://x/y") == "/user/alice/?next=http://x/y"
    assert segments(origin_form("*")) == (b"",)


def test_a_higher_revision_always_wins() -> None:
    assert judge(None, route(0)) is Change.reroute
    assert judge(route(3), route(4, "parked")) is Change.park
    assert judge(route(3, "parked"), route(9, "closed")) is Change.reroute


def test_a_lower_revision_is_stale() -> None:
    with pytest.raises(Stale, match="Revision 3") as caught:
        judge(route(3), route(2, "closed"))
    assert caught.value.details == {"revision": 3}


def test_the_same_revision_is_a_repetition_or_a_conflict() -> None:
    assert judge(route(3), route(3)) is Change.none
    with pytest.raises(Conflict, match="other contents"):
        judge(route(3), route(3, "closed"))


@pytest.mark.parametrize("backend", ["127.0.0.1:80", "ftp://h:1", "http://", "http://h:1/path"])
def test_a_backend_that_is_no_address_is_refused(backend: str) -> None:
    with pytest.raises(BadRequest, match="http://HOST:PORT"):
        check(object_name("alice/default"), route(backend=backend))


@pytest.mark.parametrize("missing", [{"backend": None}, {"lease": None}])
def test_an_open_route_without_backend_or_lease_is_refused(missing: dict[str, None]) -> None:
    with pytest.raises(BadRequest, match="needs a backend and a lease"):
        check(object_name("alice/default"), route(**missing))
    check(object_name("alice/default"), route(mode="closed", **missing))


def test_a_route_under_another_name_is_refused() -> None:
    with pytest.raises(BadRequest, match="belongs at"):
        check(object_name("bob/default"), route())
