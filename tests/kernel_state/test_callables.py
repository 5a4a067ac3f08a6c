"""What functools, weakref and NumPy make of a notebook's functions comes over."""

from __future__ import annotations

import pytest
from sessions import moved, plan_of, session

CODE = """
import functools, weakref
G = 1
@functools.lru_cache(maxsize=3)
def f(x): return x + G
f(1); f.note = 'n'; part = functools.partial(f, 1)
def make():
    @functools.cache
    def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
    return fib
fib = make()
class A:
    @functools.cached_property
    def once(self): return [1]
    @functools.lru_cache
    def cached(self): return 5
    @functools.singledispatchmethod
    def kind(self, x): return 'object'
    @kind.register
    def _(self, x: int): return 'int'
    three = functools.partialmethod(lambda self, v: v, 3)
a = A(); once = a.once; proxy = weakref.proxy(a)
@functools.singledispatch
def kind(x): return 'object'
@kind.register
def _of_int(x: int): return 'int'
kind(1)
"""


def test_functions_with_caches_and_by_type_come_over():
    namespace = session(CODE)
    assert "computed anew" in plan_of(namespace)["f"].reason
    exec(
        "assert f(1) == 2 and f.cache_parameters() == {'maxsize': 3, 'typed': False}\n"
        "assert f.note == 'n' and part.func is f and fib(50) == 12586269025\n"
        "G = 10; assert f(5) == 15\n"
        "assert a.once is once and a.cached() == 5 and a.three() == 3\n"
        "assert a.kind(1) == 'int' and a.kind('') == 'object' and kind(1) == 'int'\n"
        "kind.register(str, lambda x: 'str'); assert kind('') == 'str'\n"
        "assert proxy.once is once; a.new = 1; assert proxy.new == 1\n",
        moved(namespace),
    )


def test_numpy_functions_of_python_functions_come_over():
    pytest.importorskip("numpy")
    exec(
        "k = 3; assert uf(1, 2) == 7 and vec([1])[0] == 3 and add is np.add\n"
        "assert (mul.identity, mul.nin, mul.nout) == (1, 2, 1) and mul.reduce([]) == 1\n",
        moved(
            session(
                "import numpy as np\nk = 2; uf = np.frompyfunc(lambda x, y: x + y * k, 2, 1)\n"
                "def scaled(x): return x * k\nvec = np.vectorize(scaled); vec([1]); add = np.add\n"
                "mul = np.frompyfunc(lambda a, b: a * b, 2, 1, identity=1)\n"
            )
        ),
    )


def test_weak_references_with_callbacks_and_of_methods_come_over():
    there = moved(
        session(
            "import weakref, socket\nseen = []\nclass A:\n    def m(self): return 7\na = A()\n"
            "plain = weakref.ref(a, lambda ref: seen.append('plain'))\n"
            "method = weakref.WeakMethod(a.m)\n"
            "told = weakref.WeakMethod(a.m, lambda ref: seen.append('told'))\n"
            "gone = socket.socket(); gone.close()\n"
        )
    )
    assert there["method"]()() == there["told"]()() == 7
    assert there["gone"].fileno() == -1
    del there["a"]
    assert sorted(there["seen"]) == ["plain", "told"]
    assert there["plain"]() is there["method"]() is None
