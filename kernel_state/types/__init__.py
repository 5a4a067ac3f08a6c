"""How objects are carried, by their kind; each module installs its reducers at its import."""

from . import arrays, code, live, pandas, torch

ALL = (arrays, code, live, pandas, torch)
