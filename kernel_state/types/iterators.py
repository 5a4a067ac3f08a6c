"""Iterators and views of data that stays: carried at their place, bound to it, never used up.

Python pickles its own iterators without moving them. Those of ``itertools`` it pickles
up to 3.13 only, with a warning since 3.12 (https://docs.python.org/3/whatsnew/3.14.html).
"""

from __future__ import annotations

import collections
import gc
import itertools
import types
import warnings
from typing import Any

from ..pickler import StatePickler, reducer, refuse
from ..records import Refused

reducer(types.GeneratorType, types.AsyncGeneratorType)(
    refuse(
        "a generator that is under way",
        "Use it up (list(x)) or delete it, and make it again after the move.",
    )
)


def _of_itertools(_pickler: StatePickler, iterator: Any) -> Any:
    if "__reduce__" not in vars(type(iterator)):
        raise Refused(
            f"an iterator that is under way (itertools.{type(iterator).__name__})",
            "Keep what is left of it (list(x)), or make it again after the move.",
            iterator,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return iterator.__reduce__()


for _kind in [*vars(itertools).values(), type(itertools.tee(())[0])]:
    if isinstance(_kind, type):
        reducer(_kind)(_of_itertools)


# --- views of dicts -------------------------------------------------------------------

_VIEWS = {
    type(getattr(kind(), name)()): (kind, name)
    for kind in (dict, collections.OrderedDict)
    for name in ("keys", "values", "items")
}


def _view(_pickler: StatePickler, view: Any) -> Any:
    kind, name = _VIEWS[type(view)]
    return getattr(kind, name), (_behind(view),)


@reducer(types.MappingProxyType)
def _proxy(_pickler: StatePickler, proxy: Any) -> Any:
    return types.MappingProxyType, (_behind(proxy),)


def _behind(view: Any) -> Any:
    """Return the mapping itself; ``view.mapping`` gives but another proxy of it."""
    return gc.get_referents(view)[0]


reducer(*_VIEWS)(_view)
