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
    regexes,
    torch,
)

ALL = (
    arrays, callables, code, concurrency, exceptions, iterators, live, pandas, regexes, torch,
)  # fmt: skip
