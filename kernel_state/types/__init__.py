"""How objects are carried, by their kind; each module installs its reducers at its import."""

from . import (
    arrays,
    callables,
    code,
    concurrency,
    delegating,
    exceptions,
    figures,
    iterators,
    live,
    native,
    pandas,
    progress,
    regexes,
    torch,
    typings,
    widgets,
)

ALL = (
    arrays, callables, code, concurrency, delegating, exceptions, figures, iterators, live, native,
    pandas, progress, regexes, torch, typings, widgets,
)  # fmt: skip
