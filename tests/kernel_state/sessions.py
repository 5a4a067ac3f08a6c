"""Namespaces as kernels have them, made, saved and loaded without a kernel."""

from __future__ import annotations

import io
from typing import Any

from devcluster import kernel_state


def session(code: str = "", **variables: Any) -> dict[str, Any]:
    """Return a namespace in which some code has run."""
    namespace: dict[str, Any] = {"__name__": "__main__", **variables}
    # As in a kernel: without the __future__ imports of this file.
    exec(compile(code, "<cell>", "exec", dont_inherit=True), namespace)
    return namespace


def moved(namespace: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return what a save and a load into a fresh namespace make of one."""
    stream = io.BytesIO()
    kernel_state.save(stream, namespace=namespace, **options)
    stream.seek(0)
    target = session()
    kernel_state.load(stream, namespace=target)
    return target


def plan_of(namespace: dict[str, Any], **options: Any) -> dict[str, kernel_state.Record]:
    """Return the plan by name."""
    return {r.name: r for r in kernel_state.plan(namespace=namespace, **options)}
