"""Random graphs with aliases across containers, arrays and frames come over with their topology."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sessions import moved, plan_of, session


@st.composite
def graphs(draw: Any) -> dict[str, Any]:
    """Variables that refer to each other, to arrays and views of them, and to frames."""
    pool: list[Any] = [[], {}, np.arange(draw(st.sampled_from([4, 20_000])), dtype="f8"), "s", 7]
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["list", "dict", "tuple", "set", "view", "series", "link"]))
        pick = draw(st.integers(0, len(pool) - 1))
        chosen = pool[pick]
        arrays = [x for x in pool if isinstance(x, np.ndarray) and x.size > 1]
        array = arrays[draw(st.integers(0, len(arrays) - 1))]
        if kind == "list":
            pool.append([chosen, chosen])
        elif kind == "dict":
            pool.append({"k": chosen, 1: array})
        elif kind == "tuple":
            pool.append((chosen, array))
        elif kind == "set":
            pool.append({1, "a"})
        elif kind == "view":
            step = draw(st.sampled_from([1, 2, -1]))
            pool.append(array[draw(st.integers(0, 1)) :: step])
        elif kind == "series":
            series = pd.Series(np.arange(5.0))
            pool += [series, series.to_frame("x"), series[1:]]
        else:  # a cycle
            container = draw(st.sampled_from([x for x in pool if isinstance(x, list)]))
            container.append(chosen)
    names = draw(st.permutations(range(len(pool))))
    return {f"v{n}": pool[n] for n in names}


def _shape(namespace: dict[str, Any]) -> list[Any]:
    """Return the graph as a list: each object once, numbered as met, with what it holds."""
    seen: dict[int, int] = {}
    found: list[Any] = []

    def walk(value: Any) -> int:
        if isinstance(value, str | int | float):
            found.append(value)
            return len(found) - 1
        if id(value) in seen:
            return seen[id(value)]
        number = seen[id(value)] = len(found)
        found.append(None)
        if isinstance(value, dict):
            inner: Any = [(walk(k), walk(v)) for k, v in value.items()]
        elif isinstance(value, list | tuple):
            inner = [walk(v) for v in value]
        elif isinstance(value, set):
            inner = sorted(map(str, value))
        elif isinstance(value, np.ndarray):
            inner = (value.dtype.str, value.strides, value.tolist(), value.flags.writeable)
        else:
            inner = value.to_dict()
        found[number] = (type(value).__name__, inner)
        return number

    roots = [walk(namespace[name]) for name in sorted(namespace) if name.startswith("v")]
    arrays = [namespace[n] for n in sorted(namespace) if isinstance(namespace[n], np.ndarray)]
    shared = [np.shares_memory(a, b) for a in arrays for b in arrays]
    return [roots, found, shared]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_any_graph_comes_over_with_its_topology(variables):
    namespace = session(**variables)
    before = _shape(namespace)
    assert {r.kind for r in plan_of(namespace).values()} == {"carried"}
    assert _shape(namespace) == before
    there = moved(namespace)
    assert _shape(there) == before
    frames = [v for v in there.values() if isinstance(v, pd.Series | pd.DataFrame)]
    for frame in frames:  # a write shows in the frame itself and nowhere else
        others = [other.copy(deep=True) for other in frames if other is not frame]
        frame.iloc[0] = -1.0
        now = [other for other in frames if other is not frame]
        assert all(a.equals(b) for a, b in zip(others, now, strict=True))
