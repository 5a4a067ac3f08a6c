"""Iterators come over at their place; generators are refused by name."""

from __future__ import annotations

import sys

import pytest
from sessions import moved, plan_of, session

BUILT_IN = {
    "list": ("iter([1, 2, 3])", [2, 3]),
    "tuple": ("iter((1, 2))", [2]),
    "text": ("iter('abc')", ["b", "c"]),
    "dict": ("iter({'a': 1, 'b': 2}.items())", [("b", 2)]),
    "range": ("iter(range(3))", [1, 2]),
    "enumerate": ("enumerate('ab')", [(1, "b")]),
    "zip": ("zip([1, 2], 'ab')", [(2, "b")]),
    "map": ("map(lambda v: v + 1, [1, 2])", [3]),
    "filter": ("filter(None, [1, 0, 2])", [2]),
    "reversed": ("reversed([1, 2])", [1]),
    "callable": ("iter(iter([5, 6, 7]).__next__, 7)", [6]),
}
ITERTOOLS = {
    "chain": ("itertools.chain([1], [2])", [2]),
    "chain of an iterator": ("itertools.chain.from_iterable(iter([[1], [2, 3]]))", [2, 3]),
    "islice": ("itertools.islice(itertools.count(5, 2), 1, 3)", [9]),
    "tee": ("itertools.tee([1, 2])[0]", [2]),
    "product": ("itertools.product([1], [2, 3])", [(1, 3)]),
    "permutations": ("itertools.permutations([1, 2])", [(2, 1)]),
    "accumulate": ("itertools.accumulate([1, 2, 3])", [3, 6]),
    "takewhile": ("itertools.takewhile(bool, [1, 2, 0])", [2]),
    "zip_longest": ("itertools.zip_longest([1], [1, 2])", [(None, 2)]),
    "repeat": ("itertools.repeat(4, 2)", [4]),
}


@pytest.mark.parametrize("kind", BUILT_IN)
def test_an_iterator_goes_on_where_it_was_and_is_not_used_up(kind):
    make, rest = BUILT_IN[kind]
    namespace = session(f"it = {make}; next(it)")
    assert plan_of(namespace)["it"].kind == "carried"
    assert list(moved(namespace)["it"]) == rest
    assert list(namespace["it"]) == rest


@pytest.mark.parametrize("kind", ITERTOOLS)
def test_an_iterator_of_itertools_goes_on_or_is_refused_by_name(kind):
    make, rest = ITERTOOLS[kind]
    namespace = session(f"import itertools\nit = {make}; next(it)")
    if sys.version_info >= (3, 14):
        assert "itertools" in plan_of(namespace)["it"].reason
    else:
        assert list(moved(namespace)["it"]) == rest
    assert list(namespace["it"]) == rest


def test_an_iterator_stays_bound_to_its_list():
    there = moved(session("data = [1, 2]; it = iter(data); next(it)"))
    there["data"].append(3)
    assert list(there["it"]) == [2, 3]


def test_views_of_a_dict_stay_bound_to_it():
    there = moved(
        session(
            "import types, collections\nd = {'a': 1}; keys, values, items = d.keys(), d.values(), "
            "d.items()\nproxy = types.MappingProxyType(d); o = collections.OrderedDict(a=1)\n"
            "ordered = o.keys(); other = types.MappingProxyType(o)\n"
        )
    )
    there["d"]["b"] = there["o"]["b"] = 2
    assert list(there["keys"]) == list(there["proxy"]) == list(there["ordered"]) == ["a", "b"]
    assert list(there["values"]) == [1, 2]
    assert list(there["items"]) == [("a", 1), ("b", 2)]
    assert there["other"]["b"] == 2


def test_generators_and_what_holds_them_are_refused_by_name():
    plan = plan_of(
        session(
            "import itertools\ng = (x for x in [1]); m = map(str, g); c = itertools.chain(g)\n"
            "async def agen(): yield 1\na = agen(); z = zip([1], [2])"
        )
    )
    assert {n for n, r in plan.items() if r.kind == "refused"} == {"g", "m", "c", "a"}
    assert "list(x)" in plan["m"].remedy
