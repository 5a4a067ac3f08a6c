"""The hosts file: which hosts there are, and what hardware they offer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import yaml
from devcluster.core.errors import BadRequest
from devcluster.core.resources import Gpu, parse_bytes
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError


def _amount(value: object) -> object:
    if isinstance(value, str | int) and not isinstance(value, bool):
        try:
            return parse_bytes(value)
        except BadRequest as error:
            raise ValueError(error.message) from error
    raise ValueError("write an amount of memory such as 16Gi")


Amount = Annotated[int, BeforeValidator(_amount)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DeclaredGpus(_Strict):
    """Some GPUs of one model."""

    model: str = Field(min_length=1)
    count: int = Field(1, ge=1, le=64)
    memory: Amount


class DeclaredHost(_Strict):
    """One host's entry. ``gpus: auto`` asks the NVIDIA driver."""

    cpus: float = Field(gt=0)
    memory: Amount
    gpus: list[DeclaredGpus] | Literal["auto"] = []

    def declared_gpus(self, host: str) -> list[Gpu]:
        """Return the GPUs, with UUIDs that stay the same from start to start."""
        if isinstance(self.gpus, str):
            return []
        kinds = [kind for kind in self.gpus for _ in range(kind.count)]
        return [
            Gpu(uuid=f"GPU-declared-{host}-{n}", model=kind.model, memory=kind.memory)
            for n, kind in enumerate(kinds)
        ]


class _File(_Strict):
    hosts: dict[str, DeclaredHost]


_SHAPE = (
    "A hosts file reads:  hosts: {NAME: {cpus: 8, memory: 32Gi, "
    "gpus: [{model: V100, count: 2, memory: 16Gi}]}}  (or gpus: auto)."
)


def parse_hosts(text: str, name: str = "the hosts file") -> dict[str, DeclaredHost]:
    """Return the declared hosts by name.

    Raises
    ------
    BadRequest
        Naming the line or the field that is wrong, and what is allowed.
    """
    try:
        content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadRequest(f"{name}, line {line}: {error.problem or 'no YAML'}. {_SHAPE}") from error
    except yaml.YAMLError as error:
        raise BadRequest(f"{name} is no YAML: {error}. {_SHAPE}") from error
    try:
        return _File.model_validate(content).hosts
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'the whole file'}: {one['msg']}"
            for one in error.errors()[:3]
        )
        raise BadRequest(f"{name}: {problems}. {_SHAPE}") from error


def read_host(path: Path, host: str) -> DeclaredHost:
    """Return one host's entry of a hosts file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"The hosts file {path} cannot be read: {error}.") from error
    hosts = parse_hosts(text, str(path))
    if host not in hosts:
        raise BadRequest(
            f"{path} declares no host {host!r}. Declared: {', '.join(hosts) or 'none'}."
        )
    return hosts[host]
