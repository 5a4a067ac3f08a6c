"""The admin's file of flavors."""

from __future__ import annotations

from pathlib import Path

import yaml
from devcluster.core.errors import BadRequest
from devcluster.core.resources import Flavor
from pydantic import BaseModel, ConfigDict, Field, ValidationError

_ALLOWED = ", ".join(Flavor.model_fields)


class FlavorFile(BaseModel):
    """``flavors:`` and a list of them."""

    model_config = ConfigDict(extra="forbid")

    flavors: list[Flavor] = Field(min_length=1)


def read_flavors(path: str | Path) -> list[Flavor]:
    """Return the flavors of a YAML file, in its order.

    Raises
    ------
    BadRequest
        If it cannot be read or contradicts itself; says what is allowed.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"The flavors file {path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadRequest(f"The flavors file {path} is no YAML: {error}") from error
    try:
        flavors = FlavorFile.model_validate(content).flavors
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise BadRequest(
            f"The flavors file {path} is wrong at {where}: {first['msg']}. It holds "
            f"'flavors:' and a list, each with some of: {_ALLOWED}."
        ) from error
    except BadRequest as error:  # an amount of memory
        raise BadRequest(f"The flavors file {path} is wrong: {error.message}") from error
    names = [f.name for f in flavors]
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise BadRequest(f"The flavors file {path} names {', '.join(double)} twice.")
    return flavors
