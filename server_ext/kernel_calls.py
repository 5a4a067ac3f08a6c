"""What is asked of :mod:`devcluster.kernel_state` inside a kernel, and how its answers are read."""

from __future__ import annotations

from typing import Any

from devcluster.core.errors import DevClusterError, StepFailed
from devcluster.core.records import KernelPlan, VariablePlan

from .kernel_link import KernelLink

# An expression, so that no name is bound in the person's namespace.
_REMOTE = "__import__('devcluster.kernel_state.remote', fromlist=['remote'])"


async def plan_kernel(link: KernelLink, facts: KernelPlan, timeout_s: float) -> KernelPlan:
    """Ask what of a kernel would be carried, rebuilt and lost."""
    return _planned(facts, await link.ask(f"{_REMOTE}.plan_json()", timeout_s))


async def save_kernel(link: KernelLink, facts: KernelPlan, path: str) -> KernelPlan:
    """Have a kernel write its state to ``path``; takes as long as it takes.

    Raises
    ------
    StepFailed
        Naming the kernel and what it said.
    """
    try:
        return _planned(facts, await link.ask(f"{_REMOTE}.save_json({path!r})"))
    except DevClusterError as error:
        raise _failed(facts, "saved", error) from error


async def load_kernel(
    link: KernelLink, facts: KernelPlan, path: str, session_name: str
) -> KernelPlan:
    """Have a fresh kernel take up the state at ``path``.

    Parameters
    ----------
    session_name
        The notebook's file, which jupyter-server gives kernels as ``JPY_SESSION_NAME``;
        a kernel that was warmed before its notebook was known lacks it. Empty for none.

    Raises
    ------
    StepFailed
        Naming the kernel and what it said. The kernel may then hold half of the state.
    """
    load = f"{_REMOTE}.load_json({path!r})"
    if session_name:
        variable = {"JPY_SESSION_NAME": session_name}
        load = f"(__import__('os').environ.update({variable!r}), {load})[1]"
    try:
        return _planned(facts, await link.ask(load))
    except DevClusterError as error:
        raise _failed(facts, "restored", error) from error


async def warm_kernel(link: KernelLink, modules: list[str], timeout_s: float) -> None:
    """Have a fresh kernel import modules; those that fail are left for later."""
    await link.ask(f"{_REMOTE}.warm_json({modules!r})", timeout_s)


def name_of(facts: KernelPlan) -> str:
    """Return what people know a kernel by."""
    return facts.title or f"kernel {facts.kernel_id}"


def _planned(facts: KernelPlan, answer: dict[str, Any]) -> KernelPlan:
    variables = [VariablePlan.model_validate(each) for each in answer.get("variables", [])]
    update = {
        "variables": variables,
        "bytes": answer.get("bytes", 0),
        "modules": answer.get("modules", []),
    }
    return facts.model_copy(update=update)


def _failed(facts: KernelPlan, what: str, error: DevClusterError) -> StepFailed:
    return StepFailed(
        f"The state of {name_of(facts)} could not be {what}: {error.message}",
        kernel=facts.kernel_id,
        **error.details,
    )
