"""How objects are carried, by their kind; each module installs its reducers at its import."""

from . import (
    arrays,
    callables,
    code,
    concurrency,
    exceptions,
    iterators,
    live,
    pandas,
    progress,
    regexes,
    torch,
    widgets,
)

ALL = (
    arrays, callables, code, concurrency, exceptions, iterators, live, pandas, progress,
    regexes, torch, widgets,
)  # fmt: skip
