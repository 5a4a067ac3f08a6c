"""Functions, classes and modules: by name where the target can import them, else by value.

By value means rebuilt in the target's ``__main__``: a function's globals are the live
namespace, closures share their cells, classes are made without running hooks that
have run already (``__init_subclass__``, ``__set_name__``, metaclasses of the notebook).
"""

from __future__ import annotations

import abc
import contextlib
import enum
import sys
import types
from collections.abc import Iterator
from typing import Any

from cloudpickle import cloudpickle as cp

from ..loading import current
from ..parts.imports import is_installed
from ..pickler import StatePickler, reducer
from . import native


def is_importable(module: Any) -> bool:
    """Whether the import system made a module, so that it can make it again."""
    return (
        getattr(module, "__spec__", None) is not None
        and getattr(module, "__name__", "__main__") != "__main__"
    )


def by_name(obj: Any) -> bool:
    """Whether a function or class is found under its name in an importable module."""
    found = cp._lookup_module_and_qualname(obj)
    return found is not None and is_importable(found[0])


# --- functions ----------------------------------------------------------------


@reducer(types.FunctionType)
def reduce_function(pickler: StatePickler, function: types.FunctionType) -> Any:
    """Reduce a function."""
    if by_name(function):
        return NotImplemented
    closure = function.__closure__
    arguments = (function.__code__, _globals(pickler, function), function.__name__, closure)
    state = {
        "__defaults__": function.__defaults__,
        "__kwdefaults__": function.__kwdefaults__,
        "__annotations__": function.__annotations__,
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
        "__doc__": function.__doc__,
        "__dict__": dict(function.__dict__),
    }
    return _make_function, arguments, state, None, None, _set_attributes


def _globals(pickler: StatePickler, function: types.FunctionType) -> Any:
    namespace = function.__globals__
    if namespace is pickler.session.namespace:
        return namespace
    module = sys.modules.get(str(namespace.get("__name__")))
    module = pickler.memory.get(("module", id(namespace)), module)
    if module is not None and vars(module) is namespace:
        return _remembered(pickler, _ModuleGlobals, module)
    return namespace  # of an exec or a %run: carried as a dict


def _make_function(
    code: types.CodeType,
    namespace: Any,
    name: str,
    closure: tuple[types.CellType, ...] | None,
) -> types.FunctionType:
    return types.FunctionType(code, namespace, name, None, closure)


def _set_attributes(obj: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        setattr(obj, name, value)


class _ModuleGlobals:
    """Stands for the globals of a module."""

    def __init__(self, module: types.ModuleType) -> None:
        self.module = module

    def __reduce__(self) -> tuple[Any, ...]:
        return vars, (self.module,)


def _remembered(pickler: StatePickler, kind: type, subject: Any) -> Any:
    key = (kind, id(subject))
    if key not in pickler.memory:
        pickler.memory[key] = kind(subject)
    return pickler.memory[key]


@reducer(types.CellType)
def reduce_cell(_pickler: StatePickler, cell: types.CellType) -> Any:
    """Reduce a closure's cell; its content comes after it, since it may lead back to it."""
    try:
        content = cell.cell_contents
    except ValueError:
        return types.CellType, ()
    return types.CellType, (), (content,), None, None, _fill_cell


def _fill_cell(cell: types.CellType, state: tuple[Any]) -> None:
    cell.cell_contents = state[0]


@reducer(types.CodeType)
def reduce_code(_pickler: StatePickler, code: types.CodeType) -> Any:
    """Reduce code, with its true file name: tracebacks and ``inspect`` need it."""
    make, arguments = cp._code_reduce(code)
    place = arguments.index("<dynamic-code>")
    return make, (*arguments[:place], code.co_filename, *arguments[place + 1 :])


# --- modules ------------------------------------------------------------------


@reducer(types.ModuleType)
def reduce_module(pickler: StatePickler, module: types.ModuleType) -> Any:
    """Reduce a module: by name, or as a new one with the same content."""
    if is_importable(module) and sys.modules.get(module.__name__) is module:
        pickler.memory.setdefault("modules", set()).add(module.__name__)
        if not is_installed(module):
            pickler.note(
                f"The module {module.__name__} is imported again from its file; what was changed "
                "in it since is not carried."
            )
        return cp.subimport, (module.__name__,)
    pickler.memory["module", id(vars(module))] = module
    state = {name: value for name, value in vars(module).items() if name != "__builtins__"}
    known = sys.modules.get(module.__name__) is module
    return _make_module, (module.__name__, known), state, None, None, _fill_module


def _make_module(name: str, known: bool) -> types.ModuleType:
    module = types.ModuleType(name)
    if known and name != "__main__":
        current().finally_do.append(lambda: sys.modules.__setitem__(name, module))
    return module


def _fill_module(module: types.ModuleType, state: dict[str, Any]) -> None:
    vars(module).update(state)


# --- classes ------------------------------------------------------------------


@reducer(type)
def reduce_class(pickler: StatePickler, cls: type) -> Any:
    """Reduce a class."""
    if cls in (type(None), type(Ellipsis), type(NotImplemented)) or cls in cp._BUILTIN_TYPE_NAMES:
        return cp._class_reduce(cls)
    if by_name(cls):
        return NotImplemented
    if type(cls).__module__ == "_ctypes":
        return native.reduce_type(cls)
    if issubclass(cls, enum.Enum):
        return _reduce_enum(cls)
    body: dict[str, Any] = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    if "__slots__" in vars(cls):
        slots = vars(cls)["__slots__"]
        # A class keeps any iterable that it was given; one that is used up says nothing.
        body["__slots__"] = slots if isinstance(slots, str) else tuple(slots)
    if "__orig_bases__" in vars(cls):  # Generic looks at them when a subclass is made
        body["__orig_bases__"] = vars(cls)["__orig_bases__"]
    arguments = (type(cls), cls.__name__, cls.__bases__, body)
    state = _class_state(cls)
    state[_REGISTERED_WITH] = _registrations(pickler).get(id(cls), [])
    return _make_class, arguments, state, None, None, _fill_class


def _class_state(cls: type) -> dict[str, Any]:
    state = {
        name: value
        for name, value in vars(cls).items()
        if name not in ("__dict__", "__weakref__", "__slots__", "__module__", "_abc_impl")
        and not (isinstance(value, types.MemberDescriptorType) and value.__objclass__ is cls)
    }
    if isinstance(cls, abc.ABCMeta):
        registered = abc._get_dump(cls)[0]  # type: ignore[attr-defined]
        state[_REGISTERED] = [kind for reference in registered if (kind := reference())]
    return state


#: Among a class's attributes: what was registered with an abstract base class.
_REGISTERED = "devcluster registered"
#: Which abstract base classes of importable modules it was registered with.
_REGISTERED_WITH = "devcluster registered with"


def _registrations(pickler: StatePickler) -> dict[int, list[type]]:
    """Return the abstract base classes of modules by the classes registered with them."""
    if "registrations" not in pickler.memory:
        found: dict[int, list[type]] = {}
        for base in _abstract_classes():
            for reference in abc._get_dump(base)[0]:  # type: ignore[attr-defined]
                kind = reference()
                if kind is not None and not by_name(kind) and by_name(base):
                    found.setdefault(id(kind), []).append(base)
        pickler.memory["registrations"] = found
    known: dict[int, list[type]] = pickler.memory["registrations"]
    return known


def _abstract_classes() -> Iterator[type]:
    seen: set[int] = set()
    waiting = [object]
    while waiting:
        for kind in type.__subclasses__(waiting.pop()):
            if id(kind) not in seen:
                seen.add(id(kind))
                waiting.append(kind)
                if isinstance(kind, abc.ABCMeta):
                    yield kind


def _is_by_value(cls: type) -> bool:
    return not by_name(cls)


def _make_class(meta: type, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
    if meta.__module__ == "typing" and meta.__name__ == "_TypedDictMeta":
        return type.__new__(meta, name, bases, dict(body))
    with _hooks_muted(bases):
        if _is_by_value(meta):
            # A metaclass of the notebook did its work when the class was first made.
            base: Any = next(kind for kind in meta.__mro__ if not _is_by_value(kind))
            made: type = base.__new__(meta, name, bases, dict(body))
            return made
        return types.new_class(name, bases, {"metaclass": meta}, lambda space: space.update(body))


@contextlib.contextmanager
def _hooks_muted(bases: tuple[type, ...]) -> Iterator[None]:
    # __init_subclass__ of a class that comes along has run for this subclass already; one of
    # an importable module has not in this process, and may keep a registry there.
    muted = {
        kind: vars(kind)["__init_subclass__"]
        for base in bases
        for kind in base.__mro__
        if "__init_subclass__" in vars(kind) and _is_by_value(kind)
    }
    for kind in muted:
        type.__setattr__(kind, "__init_subclass__", classmethod(lambda cls, **_: None))
    try:
        yield
    finally:
        for kind, hook in muted.items():
            type.__setattr__(kind, "__init_subclass__", hook)


def _fill_class(cls: type, state: dict[str, Any]) -> None:
    registered = state.pop(_REGISTERED, ())
    bases = state.pop(_REGISTERED_WITH)
    own = type(cls).__setattr__
    # A metaclass of the notebook may watch assignments; these are none.
    assign: Any = type.__setattr__ if isinstance(own, types.FunctionType) else own
    for name, value in state.items():
        assign(cls, name, value)
    for kind in registered:
        cls.register(kind)  # type: ignore[attr-defined]
    for base in bases:
        base.register(cls)


# --- enums --------------------------------------------------------------------


def _reduce_enum(cls: Any) -> Any:
    members = {name: member._value_ for name, member in cls.__members__.items()}
    arguments = (
        cls.__bases__, cls.__name__, cls.__qualname__, members, cls.__module__, None, None,
    )  # fmt: skip
    attributes, _ = cp._class_getstate(cls)
    made = {
        "_generate_next_value_", "_member_names_", "_member_map_", "_member_type_",
        "_value2member_map_", "__module__", "_new_member_", "__new__", "_hashable_values_",
        "_unhashable_values_", "_abc_impl", *members,
    }  # fmt: skip
    state = {name: value for name, value in attributes.items() if name not in made}
    # What __init__ or later code gave to the members.
    given = {name: dict(member.__dict__) for name, member in cls.__members__.items()}
    return cp._make_skeleton_enum, arguments, (state, given), None, None, _fill_enum


def _fill_enum(cls: Any, content: tuple[dict[str, Any], dict[str, dict[str, Any]]]) -> None:
    state, given = content
    for name, value in state.items():
        type.__setattr__(cls, name, value)
    for name, attributes in given.items():
        member = cls.__members__[name]
        for key, value in attributes.items():
            if key not in ("_value_", "_name_", "__objclass__", "_sort_order_"):
                member.__dict__[key] = value
