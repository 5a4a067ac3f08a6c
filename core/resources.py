"""Hardware as values: GPUs, flavors, and amounts as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .errors import BadRequest

_UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_AMOUNT = re.compile(r"^(\d+(?:\.\d+)?)\s*([kMGT]i?|Ki)?B?$")


def parse_bytes(text: str | int) -> int:
    """Return an amount of memory in bytes.

    Parameters
    ----------
    text
        A count of bytes, or a Kubernetes quantity: ``"16Gi"``, ``"500M"``. A
        trailing ``B`` is allowed.

    Raises
    ------
    BadRequest
        If it is no amount, or not positive.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        amount = text
    else:
        match = _AMOUNT.match(str(text).strip())
        if match is None:
            raise BadRequest(
                f"{text!r} is no amount of memory. Write bytes, or a number with a unit "
                "such as 512Mi or 16Gi."
            )
        amount = int(float(match[1]) * _UNITS[match[2] or ""])
    if amount <= 0:
        raise BadRequest(f"An amount of memory must be above zero, not {text!r}.")
    return amount


def format_bytes(amount: int) -> str:
    """Return an amount for people: ``"1.5 GiB"``."""
    size = float(amount)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"


class Gpu(BaseModel):
    """One GPU of a host, known by its UUID: indices change when a card is lost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uuid: str = Field(min_length=1)
    model: str = Field(min_length=1)
    memory: int = Field(gt=0)


class Flavor(BaseModel):
    """A hardware shape that a person can ask for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: What people type: ``cpu``, ``1xA100``.
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
    #: What people read: ``1 × A100``; the name if empty.
    title: str = ""
    gpu_model: str | None = None
    gpus: int = Field(0, ge=0)
    cpus: float = Field(gt=0)
    memory: int = Field(gt=0)

    @field_validator("memory", mode="before")
    @classmethod
    def _memory(cls, value: object) -> object:
        return parse_bytes(value) if isinstance(value, str) else value

    def model_post_init(self, _context: object) -> None:
        """Refuse a flavor that contradicts itself."""
        if bool(self.gpus) != (self.gpu_model is not None):
            raise ValueError(
                f"flavor {self.name!r}: give both gpu_model and gpus (above zero), or neither"
            )

    @property
    def label(self) -> str:
        """What people read."""
        return self.title or self.name


def find_flavor(flavors: Iterable[Flavor], name: str) -> Flavor:
    """Return the flavor of that name, or say which there are."""
    known = list(flavors)
    for flavor in known:
        if flavor.name == name:
            return flavor
    raise BadRequest(f"There is no flavor {name!r}. Allowed: {', '.join(f.name for f in known)}.")


def match_flavor(flavors: Iterable[Flavor], gpus: int, model: str | None = None) -> Flavor:
    """Return the flavor with that many GPUs (of that model, case ignored).

    Without a model the first flavor with the count is taken, in the admin's order.

    Raises
    ------
    BadRequest
        If there is none; the message lists what there is.
    """
    known = list(flavors)
    if gpus < 0:
        raise BadRequest(f"A count of GPUs may not be negative, as {gpus} is.")
    for flavor in known:
        fits = model is None or (flavor.gpu_model or "").lower() == model.lower()
        if flavor.gpus == gpus and (fits or gpus == 0):
            return flavor
    asked = f"{gpus} GPUs" + (f" of model {model!r}" if model else "")
    raise BadRequest(
        f"There is no flavor with {asked}. Allowed: {', '.join(f.name for f in known)}."
    )
