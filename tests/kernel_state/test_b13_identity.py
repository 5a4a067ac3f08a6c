"""B13: after a load all is what it was: identity, classes, globals, memory."""

from __future__ import annotations

import weakref

import numpy as np
import pandas as pd
import pytest
from sessions import moved, plan_of, session

CASES = {
    "aliases": ("a = []; b = a; box = {'a': (a,)}", "a is b and box['a'][0] is a"),
    "cycle": ("d = {}; d['self'] = d; l = [d]; d['l'] = l", "d['self'] is d and d['l'][0] is d"),
    "class of an instance": (
        "class P: pass\np = P(); p.me = p",
        "type(p) is P and isinstance(p, P) and p.me is p",
    ),
    "later redefinition": (
        "counter = 1\ndef f(): return counter\nimport functools\ng = functools.partial(f)",
        "f() == 1; counter = 2; assert f() == 2 and g() == 2 and g.func is f",
    ),
    "shared cells": (
        "def make():\n    n = 0\n    def inc():\n        nonlocal n\n        n += 1\n"
        "        return n\n    def get(): return n\n    return inc, get\n"
        "inc, get = make(); inc()",
        "inc() == 2; assert get() == 2",
    ),
    "recursive closure": (
        "def make():\n    def fact(n): return 1 if n < 2 else n * fact(n - 1)\n    return fact\n"
        "fact = make()",
        "fact(5) == 120 and fact.__closure__[0].cell_contents is fact",
    ),
    "the namespace itself": ("here = globals(); x = 1", "here is globals() and here['x'] == 1"),
    "defaults and attributes": (
        "def f(a, b=2, *, c=3) -> int:\n    'doc'\n    return a + b + c\nf.note = [1]",
        "f(1) == 6 and f.__doc__ == 'doc' and f.note == [1] and f.__annotations__['return'] is int",
    ),
    "enum": (
        "import enum\nclass C(enum.Enum):\n    R = 1; G = 2; CRIMSON = 1\n"
        "    def __init__(self, v): self.tenfold = v * 10\nr = C.R",
        "r is C.R and C.CRIMSON is C.R and C(2) is C.G and C.G.tenfold == 20 "
        "and list(C) == [C.R, C.G]",
    ),
    "flag and str enums": (
        "import enum\nclass F(enum.Flag):\n    A = enum.auto(); B = enum.auto()\n"
        "class S(enum.StrEnum):\n    X = 'x'\nab = F.A | F.B; x = S.X",
        "ab == F.A | F.B and F.A in ab and x is S.X and x == 'x'",
    ),
    "dataclass with slots": (
        "import dataclasses\n@dataclasses.dataclass(slots=True)\nclass D:\n    x: int = 1\n"
        "    y: list = dataclasses.field(default_factory=list)\nd = D(4); old = D",
        "type(d) is D and d.x == 4 and not hasattr(d, '__dict__') and D() == D(1, []) "
        "and [f.name for f in dataclasses.fields(d)] == ['x', 'y']",
    ),
    "namedtuple": (
        "import collections, typing\nN = collections.namedtuple('N', 'q w'); n = N(1, 2)\n"
        "class T(typing.NamedTuple):\n    a: int = 0\nt = T(3)",
        "type(n) is N and n.w == 2 and n._replace(q=5).q == 5 and type(t) is T and T().a == 0",
    ),
    "typed dict, generic, protocol": (
        "import typing\nclass TD(typing.TypedDict):\n    a: int\nX = typing.TypeVar('X')\n"
        "class Box(typing.Generic[X]):\n    def __init__(self, v): self.v = v\n"
        "class Named(typing.Protocol):\n    name: str\nb = Box[int](3)",
        "TD(a=1) == {'a': 1} and isinstance(b, Box) and Box[str](2).v == 2",
    ),
    "hooks do not run again": (
        "registry = []\nclass Base:\n    def __init_subclass__(cls): registry.append(cls)\n"
        "class Sub(Base): pass\n"
        "class Meta(type):\n    made = []\n    def __init__(cls, *a): Meta.made.append(cls)\n"
        "class WithMeta(metaclass=Meta): pass",
        "registry == [Sub] and Meta.made == [WithMeta] and type(WithMeta) is Meta; "
        "Later = type('Later', (Base,), {}); assert registry == [Sub, Later]",
    ),
    "super and properties": (
        "class A:\n    k = 0\n    def area(self): return 1\n    @property\n    def twice(self): "
        "return 2 * self.area()\n    @classmethod\n    def made(cls): return cls()\n"
        "class B(A):\n    def area(self): return super().area() + 9\nb = B(); bound = b.area",
        "b.twice == 20 and bound() == 10 and bound.__self__ is b and type(B.made()) is B",
    ),
    "abstract": (
        "import abc\nclass A(abc.ABC):\n    @abc.abstractmethod\n    def f(self): ...\n"
        "class B(A):\n    def f(self): return 1\nA.register(int)\nb = B()",
        "isinstance(b, A) and isinstance(3, A) and b.f() == 1 and A.__abstractmethods__",
    ),
    "hash that needs a global": (
        "SALT = 7\nclass K:\n    def __init__(self, v): self.v = v\n"
        "    def __hash__(self): return hash((SALT, self.v))\n"
        "    def __eq__(self, o): return self.v == o.v\nkeys = {K(1), K(2)}",
        "K(1) in keys and len(keys) == 2",
    ),
    "weak references": (
        "import weakref\nclass K: pass\nk = K(); w = weakref.ref(k); gone = weakref.ref(K())\n"
        "wd = weakref.WeakValueDictionary(k=k)",
        "w() is k and gone() is None and wd['k'] is k",
    ),
    "locks at rest": (
        "import threading, queue\nlock = threading.Lock(); r = threading.RLock()\n"
        "e = threading.Event(); e.set(); q = queue.Queue(); q.put(1)\nc = threading.Condition()",
        "lock.acquire(False) and r.acquire(False) and e.is_set() and q.get_nowait() == 1",
    ),
    "dynamic module": (
        "import types\nm = types.ModuleType('made_by_hand')\n"
        "exec('def g(): return VALUE', m.__dict__); m.VALUE = 5",
        "m.g() == 5; m.VALUE = 6; assert m.g() == 6",
    ),
    "views": (
        "import numpy as np\na = np.arange(100_000.); v = a[2:5]; r = a[::-2]\n"
        "t = a[:99_999].reshape(3, -1).T; box = {'v': [v]}; limits = np.finfo('f4')\n"
        "w = np.lib.stride_tricks.sliding_window_view(a, 3)",
        "box['v'][0] is v and np.shares_memory(a, r) and np.shares_memory(t, a) "
        "and np.shares_memory(w, a) and limits.bits == 32; "
        "v[0] = -7; assert a[2] == -7 and t[2, 0] == -7 and a.flags.owndata",
    ),
    "arrays of many kinds": (
        "import numpy as np\nst = np.zeros(3, dtype=[('x', 'i4'), ('y', 'f8')]); xs = st['x']\n"
        "ro = np.ones(20_000); ro.flags.writeable = False; f = np.ones((300, 300), order='F')\n"
        "empty = np.empty((0, 3)); zero = np.array(3); when = np.array(['2026-01-01'], 'M8[ns]')\n"
        "k = np.ones((4, 50, 60)).transpose(1, 0, 2).copy(order='K'); big = np.ones(9, '>i4')\n"
        "rec = np.rec.array([(1, 2.0)], dtype=[('a', 'i4'), ('b', 'f8')])\n"
        "masked = np.ma.array([1, 2], mask=[0, 1])\n"
        "objects = np.array([[1], None], object); part = objects[:1]",
        "np.shares_memory(st, xs) and not ro.flags.writeable and f.flags.f_contiguous "
        "and empty.shape == (0, 3) and zero == 3 and when.dtype == 'M8[ns]' "
        "and k.shape == (50, 4, 60) and k.all() and big.dtype == '>i4' "
        "and rec.b[0] == 2.0 and masked.sum() == 1 and np.shares_memory(part, objects); "
        "xs[1] = 5; assert st['y'][1] == 0 and st['x'][1] == 5; part[0].append(2); "
        "assert objects[0] == [1, 2]",
    ),
    "buffers of bytes": (
        "import numpy as np\nbuf = bytearray(100_000); nb = np.frombuffer(buf, 'u1')[10:]\n"
        "mv = memoryview(buf)[5:]; big = bytes(3_000_000); same = big",
        "big is same and len(big) == 3_000_000; "
        "buf[20] = 9; assert nb[10] == 9 and mv[15] == 9; mv[5] = 4; assert nb[0] == 4",
    ),
    "copy on write": (
        "import pandas as pd, numpy as np\ndf = pd.DataFrame({'x': np.arange(5.), 'y': 1.})\n"
        "df2 = df.copy(deep=False); s = df['x']; i = pd.Index(s); same = df",
        "same is df and np.shares_memory(df['x'].values, df2['x'].values); "
        "df.loc[0, 'x'] = 99.; assert df2.loc[0, 'x'] == 0 and s[0] == 0 and i[0] == 0; "
        "s[1] = 50.; assert i[1] == 1 and df2.loc[1, 'x'] == 1",
    ),
    "pandas of many kinds": (
        "import pandas as pd\nidx = pd.MultiIndex.from_product([['a', 'b'], [1, 2]])\n"
        "m = pd.DataFrame({'c': pd.Categorical(['u', 'v', 'u', 'w']), "
        "'t': pd.date_range('2026', periods=4, tz='Europe/Berlin'), 's': ['q', None, 'r', 's']}, "
        "index=idx); m.attrs['src'] = 'unit'; n = pd.Series([1, None], dtype='Int64')",
        "m.loc[('a', 1), 'c'] == 'u' and m.attrs == {'src': 'unit'} and m['s'].isna().sum() == 1 "
        "and n.dtype == 'Int64' and str(m['t'].dt.tz) == 'Europe/Berlin'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_b13_what_held_before_holds_after(case):
    code, probe = CASES[case]
    namespace = session(code)
    assert [r for r in plan_of(namespace).values() if r.kind == "refused"] == []
    there = moved(namespace)
    first, _, rest = probe.partition(";")
    exec(f"assert {first}\n{rest.strip()}", there)


def test_b13_names_that_were_not_saved_do_not_exist_afterwards():
    import io

    from devcluster import kernel_state

    stream = io.BytesIO()
    kernel_state.save(stream, namespace=session(b=2, a=1))
    stream.seek(0)
    target = session(left_over=3, a=0)
    kernel_state.load(stream, namespace=target)
    assert "left_over" not in target
    assert [name for name in target if not name.startswith("__")] == ["b", "a"]


def test_a_loaded_array_can_be_saved_again():
    there = moved(moved(session(a=np.arange(50_000.0), s=pd.Series([1.0, 2.0]))))
    assert there["a"].sum() == np.arange(50_000.0).sum()
    there["a"][0] = 5
    assert there["s"][1] == 2


def test_a_finished_weak_dictionary_does_not_keep_its_values():
    there = moved(session("class K: pass\nimport weakref\nk = K()\nwd = weakref.WeakSet([k])"))
    assert len(there["wd"]) == 1
    alive = weakref.ref(there.pop("k"))
    import gc

    gc.collect()
    assert alive() is None
