"""What may be typed after ``%devcluster``, and what is refused."""

from __future__ import annotations

import pytest
from devcluster.core.errors import BadRequest
from devcluster.core.resources import Flavor
from devcluster.widgets.asking import Asking, Shape, parse

FLAVORS = [
    Flavor(name="cpu", cpus=2, memory="4Gi"),
    Flavor(name="1xV100", gpu_model="V100", gpus=1, cpus=4, memory="8Gi"),
    Flavor(name="1xA100", gpu_model="A100", gpus=1, cpus=4, memory="8Gi"),
    Flavor(name="2xA100", gpu_model="A100", gpus=2, cpus=8, memory="16Gi"),
]


@pytest.mark.parametrize(
    ("line", "asking"),
    [
        ("", Asking("help")),
        ("help", Asking("help")),
        ("status", Asking("status")),
        ("status --json", Asking("status", json=True)),
        ("flavors", Asking("flavors")),
        ("resize cpu", Asking("resize", Shape(name="cpu"))),
        ("resize gpu=1 model=A100", Asking("resize", Shape(gpus=1, model="A100"))),
        ("resize model=A100", Asking("resize", Shape(model="A100"))),
        ("plan gpus=2", Asking("plan", Shape(gpus=2))),
        ("deflate", Asking("deflate")),
        ("inflate", Asking("inflate")),
        ("inflate cpu", Asking("inflate", Shape(name="cpu"))),
        ("cancel", Asking("cancel")),
    ],
)
def test_a_line_is_understood(line: str, asking: Asking) -> None:
    assert parse(line) == asking


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("explode", "Allowed: status, flavors, resize"),
        ("resize", "to what?"),
        ("resize gpu=-1", "gpu=-1 is no count"),
        ("resize gpu=two", "gpu=two is no count"),
        ("resize gpu=1 gpu=2", "'gpu=2' is not understood"),
        ("resize gpu=", "'gpu=' is not understood"),
        ("resize memory=3", "'memory=3' is not understood"),
        ("resize cpu now", "'cpu' is not understood"),
        ("resize 'cpu", "cannot be read"),
        ("status --yaml", "takes nothing but --json"),
        ("cancel it", "takes nothing, not 'it'"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_does(line: str, said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(line)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "flavor"),
    [
        (Shape(name="2xA100"), "2xA100"),
        (Shape(gpus=1, model="a100"), "1xA100"),
        (Shape(gpus=1), "1xV100"),
        (Shape(model="A100"), "1xA100"),
        (Shape(gpus=0), "cpu"),
    ],
)
def test_a_shape_finds_its_flavor(shape: Shape, flavor: str) -> None:
    assert shape.find(FLAVORS).name == flavor


def test_an_unknown_flavor_lists_the_allowed() -> None:
    with pytest.raises(BadRequest, match="Allowed: cpu, 1xV100, 1xA100, 2xA100"):
        Shape(name="8xH200").find(FLAVORS)
