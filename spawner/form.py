"""The spawn page's list of flavors, as HTML in the hub's own (Bootstrap 5) style. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from devcluster.core.records import FlavorView
from devcluster.core.resources import Flavor, format_bytes


def describe(flavor: Flavor) -> str:
    """Return what a flavor consists of, for people: ``"8 CPUs · 32 GiB"``."""
    parts = [f"{flavor.cpus:g} CPU" + ("" if flavor.cpus == 1 else "s")]
    parts.append(format_bytes(flavor.memory))
    if flavor.gpus:
        parts.insert(0, f"{flavor.gpus} × {flavor.gpu_model}")
    return " · ".join(parts)


def preselected(views: Sequence[FlavorView], last: str | None = None) -> str:
    """Return the flavor to mark at first: the last one used if it is free, else the first free."""
    free = [view.flavor.name for view in views if view.free]
    if last in free:
        return str(last)
    return free[0] if free else views[0].flavor.name


def flavors_form(views: Sequence[FlavorView], last: str | None = None) -> str:
    """Return the inside of the hub's spawn form: one radio button for each flavor."""
    if not views:
        return unreachable_form("The cluster offers no flavor yet.")
    chosen = preselected(views, last)
    rows = "\n".join(_row(view, view.flavor.name == chosen) for view in views)
    return f"""
<fieldset class="mb-3" id="devcluster-flavors">
  <legend class="fs-5">Hardware to start on</legend>
  <p class="text-body-secondary">You can switch to any other while you work; nothing is lost.</p>
  <div class="list-group">
{rows}
  </div>
</fieldset>
"""


def _row(view: FlavorView, chosen: bool) -> str:
    flavor = view.flavor
    name, label = escape(flavor.name, quote=True), escape(flavor.label)
    mark = " checked" if chosen else ""
    if view.free:
        badge = f'<span class="badge rounded-pill text-bg-success">{view.free} free</span>'
    elif view.total:
        badge = '<span class="badge rounded-pill text-bg-warning">none free: you queue</span>'
    else:
        badge = '<span class="badge rounded-pill text-bg-secondary">no host has it now</span>'
    look = "list-group-item list-group-item-action d-flex align-items-center gap-3 py-3"
    return f"""    <label class="{look}">
      <input class="form-check-input m-0" type="radio" name="flavor" value="{name}" required{mark}>
      <span class="flex-grow-1"><strong>{label}</strong><br>
        <small class="text-body-secondary">{escape(describe(flavor))}</small></span>
      {badge}
    </label>"""


def unreachable_form(why: str) -> str:
    """Return what the spawn page shows where the manager cannot tell what there is."""
    return (
        '<div class="alert alert-warning" role="alert"><strong>The cluster cannot tell what '
        f"hardware is free.</strong> {escape(why)} Reload this page in a moment.</div>"
    )
