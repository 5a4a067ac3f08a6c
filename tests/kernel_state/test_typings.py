"""Types that a notebook makes by ``typing``, ``enum``, ``dataclasses`` and ``abc`` come over."""

from __future__ import annotations

from sessions import moved, plan_of, session

CODE = """
import abc, collections, dataclasses, enum, functools, random, types, weakref
from typing import *
T = TypeVar('T'); P = ParamSpec('P'); Ts = TypeVarTuple('Ts'); Id = NewType('Id', int)
Many = dict[str, list[T]]; Maybe = Optional[int]; Work = Callable[P, T]; Word = Literal['a']
class Options(TypedDict, total=False):
    a: int
class Pair(NamedTuple):
    x: int
    y: str = 'd'
class Box(Generic[T]):
    def __init__(self, v: T): self.v = v
@runtime_checkable
class Goes(Protocol):
    def go(self) -> int: ...
class Car:
    def go(self): return 1
class Color(enum.Enum):
    RED = enum.auto(); GREEN = 2; LIME = GREEN
class Access(enum.Flag):
    R = 1; W = 2; RW = R | W
@dataclasses.dataclass(slots=True, frozen=True, order=True)
class Frozen:
    a: int
    b: list = dataclasses.field(default_factory=list, compare=False)
@dataclasses.dataclass(kw_only=True)
class Made:
    a: int = 1
    seed: dataclasses.InitVar[int] = 0
    def __post_init__(self, seed): self.z = seed
class Meta(type):
    @classmethod
    def __prepare__(meta, name, bases, **given): return collections.OrderedDict()
    def __new__(meta, name, bases, space, **given):
        cls = super().__new__(meta, name, bases, dict(space)); cls.order = list(space); return cls
    def __init__(cls, name, bases, space, **given): super().__init__(name, bases, space)
class Ordered(metaclass=Meta, flag=1): z = 1
class Slots:
    __slots__ = ('a', '__weakref__')
class Named:
    def __set_name__(self, owner, name): self.name = '_' + name
    def __get__(self, obj, owner): return self if obj is None else getattr(obj, self.name)
    def __set__(self, obj, value): setattr(obj, self.name, value)
class Holder: named = Named()
class Abstract(abc.ABC): pass
class Joined: pass
Abstract.register(Joined); collections.abc.Sequence.register(Joined)
slots = Slots(); slots.a = 1; ref = weakref.ref(slots); holder = Holder(); holder.named = 4
frozen = Frozen(1, [2]); made = Made(seed=5); box = Box[int](3); dice = random.SystemRandom()
import sys; version = sys.version_info; flags = sys.flags
frozen_map = types.MappingProxyType({'box': box})
"""


def test_types_of_a_notebook_come_over():
    namespace = session(CODE)
    assert [r for r in plan_of(namespace).values() if r.kind == "refused"] == []
    exec(
        "assert Id(3) == 3 and Id.__supertype__ is int and Many[int] == dict[str, list[int]]\n"
        "assert get_args(Work)[1] is T and get_args(Work)[0] is P and P.__name__ == 'P'\n"
        "assert Options.__total__ is False and Pair(1).y == 'd' and box.v == 3\n"
        "assert isinstance(Car(), Goes)\n"
        "assert Color.LIME is Color(2) and Access.R | Access.W is Access.RW\n"
        "assert frozen.b == [2] and dataclasses.replace(frozen, a=9) > frozen and made.z == 5\n"
        "assert Ordered.order[0] == '__module__' and ref() is slots and holder.named == 4\n"
        "assert Holder.named.name == '_named' and isinstance(Joined(), Abstract)\n"
        "assert dice.random() < 1 and frozen_map['box'] is box\n"
        "assert version is sys.version_info and flags is sys.flags\n"
        "try: frozen.a = 3\nexcept dataclasses.FrozenInstanceError: pass\n"
        "else: raise AssertionError\n",
        there := moved(namespace),
    )
    assert isinstance(there["Joined"](), there["collections"].abc.Sequence)
    assert there["Joined"] is not namespace["Joined"]
