"""What a person may choose for a spawn: read from a form, a query or a REST body. Pure.

The hub stores whatever a REST body holds as ``user_options``, so everything is
checked here against an allow-list, whichever door it came through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from devcluster.core.errors import BadRequest
from devcluster.core.resources import Flavor, find_flavor

#: Nothing else may be chosen: no environment, no command, no devices.
ALLOWED = ("flavor",)


def from_form(data: Mapping[str, list[str]]) -> dict[str, object]:
    """Turn form or query fields (lists of strings) into options; one value each.

    A field given twice stays a list, so that :func:`chosen_flavor` refuses it
    rather than silently taking one of them. The hub's own anti-forgery field is dropped.
    """
    return {
        key: values[0] if len(values) == 1 else list(values)
        for key, values in data.items()
        if key != "_xsrf"
    }


def chosen_flavor(options: object, flavors: Iterable[Flavor], default: str = "") -> Flavor:
    """Return the flavor that the options ask for.

    Parameters
    ----------
    options
        The hub's ``user_options``: anything that a REST body may hold.
    flavors
        What the manager offers, in the admin's order.
    default
        The flavor where none is chosen; the first one if empty.

    Raises
    ------
    BadRequest
        For an unknown option or flavor; the message lists what is allowed.
    """
    known = list(flavors)
    if not known:
        raise BadRequest("The cluster offers no flavor. Ask an admin to look at its flavors file.")
    if not isinstance(options, Mapping):
        raise BadRequest(f"Options must be an object such as {{'flavor': '{known[0].name}'}}.")
    unknown = sorted(str(key) for key in options if key not in ALLOWED)
    if unknown:
        raise BadRequest(
            f"Unknown option {', '.join(map(repr, unknown))}. Allowed: {', '.join(ALLOWED)}."
        )
    name = options.get("flavor", default or known[0].name)
    if not isinstance(name, str):
        raise BadRequest(
            f"The flavor must be one name, not {name!r}. "
            f"Allowed: {', '.join(f.name for f in known)}."
        )
    return find_flavor(known, name)
