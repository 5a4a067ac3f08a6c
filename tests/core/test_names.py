"""B01: no two workspaces share a name on hosts, and each name is legal everywhere."""

from __future__ import annotations

import re
import string

import pytest
from devcluster.core.errors import BadRequest
from devcluster.core.names import canonical_id, object_name, split_id, workspace_id
from hypothesis import given, settings
from hypothesis import strategies as st

DNS_LABEL = re.compile(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")

PAIRS = [
    ("user-name", ""), ("user_2Dname", ""), ("a", "b-c"), ("a-b", "c"), ("a--b", ""), ("a", "-b"),
    ("Ann", ""), ("ann", ""), ("_", ""), ("-x", ""), ("x" * 300, ""), ("x" * 299 + "y", ""),
    ("ß", ""), ("ẞ", ""), ("İ", ""), ("i̇", ""), ("\u00e9", ""), ("e\u0301", ""), ("user", "__"),
    ("user@x.y", ""), ("a-b", ""), ("a_2Db", ""),
]  # fmt: skip

TEXT = st.text(
    st.sampled_from(string.ascii_letters + string.digits + "._@\\%~ +()-" + "ßẞİéå字"),
    max_size=40,
)


def test_b01_the_pairs_of_the_thread() -> None:
    names = [object_name(workspace_id(*pair)) for pair in PAIRS]
    assert len(set(names)) == len(PAIRS)
    assert all(DNS_LABEL.match(name) for name in names)


@settings(max_examples=200, deadline=None)
@given(st.sets(st.tuples(TEXT.filter(bool), TEXT.filter(lambda t: t != "default")), max_size=50))
def test_b01_names_are_injective_and_legal(pairs: set[tuple[str, str]]) -> None:
    names = {object_name(workspace_id(*pair)) for pair in pairs}
    assert len(names) == len(pairs)
    assert all(DNS_LABEL.match(name) for name in names)


@settings(max_examples=100, deadline=None)
@given(TEXT.filter(bool), TEXT.filter(lambda t: t != "default"))
def test_an_id_says_who_it_is(user: str, server: str) -> None:
    workspace = workspace_id(user, server)
    assert split_id(workspace) == (user, server)
    assert canonical_id(workspace) == workspace


def test_names_are_the_same_in_every_release() -> None:
    # Folders on hosts carry it: a change would orphan them.
    assert object_name("alice/default") == "alice-default-f75d411c964e9934"


@pytest.mark.parametrize(
    ("user", "server"), [("", "x"), ("a/b", ""), ("a", "b/c"), ("a", "default")]
)
def test_b01_what_has_no_id_of_its_own_is_refused(user: str, server: str) -> None:
    with pytest.raises(BadRequest):
        workspace_id(user, server)
