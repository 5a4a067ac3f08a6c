"""Headers, pages and the poll cache, without sockets."""

from __future__ import annotations

import json

import pytest
from devcluster.agent.netswitch import headers, pages, poll_cache
from devcluster.core.records import Route
from multidict import CIMultiDict, CIMultiDictProxy

OPEN_URL = "/services/devcluster/open/{user}/{name}"


def proxied(**items: str) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict({k.replace("_", "-"): v for k, v in items.items()}))


def test_only_hop_by_hop_headers_and_foreign_leases_are_dropped() -> None:
    given = proxied(
        Host="hub.example",
        Origin="http://hub.example",
        Cookie="a=1",
        Authorization="token x",
        X_Forwarded_For="1.2.3.4",
        Connection="keep-alive, X-Mine, Cookie",
        X_Mine="1",
        Keep_Alive="5",
        Transfer_Encoding="chunked",
        x_devcluster_lease="forged",
        Expect="100-continue",
    )
    assert dict(headers.for_upstream(given, "L7")) == {
        "Host": "hub.example",
        "Origin": "http://hub.example",
        "Cookie": "a=1",
        "Authorization": "token x",
        "X-Forwarded-For": "1.2.3.4",
        "X-DevCluster-Lease": "L7",
    }


def test_b45_an_answer_of_another_lease_is_foreign() -> None:
    assert headers.is_foreign(421, {}, "L1")
    assert headers.is_foreign(200, {"X-DevCluster-Lease": "L2"}, "L1")
    assert not headers.is_foreign(200, {"X-DevCluster-Lease": "L1"}, "L1")
    assert not headers.is_foreign(404, {}, "L1")


@pytest.mark.parametrize(
    ("method", "given", "expected"),
    [
        ("GET", {"Sec-Fetch-Mode": "navigate"}, True),
        ("POST", {"Sec-Fetch-Mode": "navigate"}, False),
        ("GET", {"Sec-Fetch-Mode": "cors", "Accept": "text/html"}, False),
        ("GET", {"Sec-Fetch-Mode": "navigate", "Sec-Purpose": "prefetch;prerender"}, False),
        ("GET", {"Accept": "text/html,*/*"}, True),
        ("GET", {"Accept": "text/html", "X-Requested-With": "XMLHttpRequest"}, False),
        ("GET", {"Accept": "application/json"}, False),
    ],
)
def test_b39_only_a_person_who_opens_a_page_navigates(
    method: str, given: dict[str, str], expected: bool
) -> None:
    assert headers.is_navigation(method, given) is expected


@pytest.mark.parametrize(
    "nasty",
    ["<img src=x onerror=alert(1)>", "</title><script>x</script>", "$title {{7*7}} ${again}", '"'],
)
def test_b48_what_people_are_told_is_escaped(nasty: str) -> None:
    route = Route(
        workspace="alice/default", prefix="/user/alice/", revision=1, mode="closed", message=nasty
    )
    told = pages.refusal(route, "/user/alice/", OPEN_URL)
    page = told.as_html(5).decode()
    assert "<img" not in page
    assert "<script" not in page
    assert page.count("</title>") == 1
    assert json.loads(told.as_json())["message"] == nasty
    if nasty.startswith("$"):
        assert nasty in page  # shown, not filled in


def test_b48_the_way_to_the_open_page_is_quoted() -> None:
    route = Route(
        workspace='a/b"\r\nX: y'.replace("/", "&") + "/two words",
        prefix="/user/x/",
        revision=1,
        mode="deflated",
    )
    told = pages.refusal(route, "/user/x/lab?a=1&b=%20#f\r\n", OPEN_URL)
    assert told.location == (
        "/services/devcluster/open/a%26b%22%0D%0AX%3A%20y/two%20words"
        "?next=%2Fuser%2Fx%2Flab%3Fa%3D1%26b%3D%2520%23f%0D%0A"
    )


def test_the_cache_is_deaf_to_the_labs_cache_buster_and_to_nothing_else() -> None:
    def at(target: str, **given: str) -> poll_cache.Key:
        return poll_cache.key(target, given)

    assert at("/u/api/kernels?1700000000000") == at("/u/api/kernels?1700000009999")
    assert at("/u/api/x?a=1&1700000000000") == at("/u/api/x?a=1&1700000009999")
    assert at("/u/api/x?a=1") != at("/u/api/x?a=2")
    assert at("/u/api/x", Cookie="a") != at("/u/api/x", Cookie="b")
    assert at("/u/api/x", Cookie="a") != at("/u/api/x", Authorization="a")
    assert at("/u/api/x", Cookie="a\0") != at("/u/api/x", Cookie="a")


def test_only_the_listed_polls_are_polls() -> None:
    polls = ["api/kernels"]
    assert poll_cache.is_poll("GET", "/u/api/kernels?17", "/u/", polls)
    assert not poll_cache.is_poll("POST", "/u/api/kernels", "/u/", polls)
    assert not poll_cache.is_poll("GET", "/u/api/kernels/1", "/u/", polls)
    assert not poll_cache.is_poll("GET", "/v/api/kernels", "/u/", polls)


def test_an_answer_from_before_a_change_is_not_kept() -> None:
    cache = poll_cache.PollCache(2)
    answer = poll_cache.CachedAnswer((), b"[]")
    at = poll_cache.key("/u/api/kernels", {})
    asked_under = cache.generation
    cache.forget()
    cache.put(at, answer, asked_under)
    assert cache.get(at) is None
    cache.put(at, answer, cache.generation)
    assert cache.get(at) is answer
    cache.forget()
    assert cache.get(at) is None


def test_the_cache_is_bounded() -> None:
    cache = poll_cache.PollCache(2)
    keys = [poll_cache.key(f"/{n}", {}) for n in "abc"]
    for at in keys:
        cache.put(at, poll_cache.CachedAnswer((), b""), cache.generation)
    assert [cache.get(at) is not None for at in keys] == [False, True, True]
