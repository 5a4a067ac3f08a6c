"""B15: tensors come over with their sharing, onto the device that the target has.

Needs PyTorch, which is no dependency of this project: without it only the choice of the
device is tested, against a torch as thin as can be.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from devcluster.kernel_state.types.torch import place_for
from sessions import moved, plan_of, session


@pytest.mark.parametrize(
    ("device", "gpus", "place"),
    [
        ("cuda:3", 0, "cpu"),
        ("cuda:3", 1, "cuda:0"),
        ("cuda:0", 1, "cuda:0"),
        ("cuda:1", 2, "cuda:1"),
        ("cuda", 1, "cuda"),
        ("cpu", 2, "cpu"),
        ("strange:0", 2, "cpu"),
    ],
)
def test_b15_a_device_that_is_not_there_is_replaced(monkeypatch, device, gpus, place):
    cuda = SimpleNamespace(is_available=lambda: gpus > 0, device_count=lambda: gpus)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert place_for(device) == place


def test_b15_sharing_gradients_and_optimizers_come_over():
    pytest.importorskip("torch")
    namespace = session(
        "import torch, torch.nn as nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.emb = nn.Linear(8, 8, bias=False); self.out = nn.Linear(8, 8, bias=False)\n"
        "        self.out.weight = self.emb.weight\n"
        "    def forward(self, x): return self.out(torch.relu(self.emb(x)))\n"
        "net = Net(); opt = torch.optim.Adam(net.parameters()); x = torch.randn(16, 8)\n"
        "net(x).pow(2).mean().backward(); opt.step(); w = net.emb.weight\n"
        "base = torch.arange(100_000.); view = base[2:5]; npv = base.numpy(); tied = w.data\n"
        "half = torch.ones(3, dtype=torch.bfloat16); meta = torch.empty(5, device='meta')\n"
    )
    assert [r for r in plan_of(namespace).values() if r.kind == "refused"] == []
    exec(
        "assert net.out.weight is net.emb.weight is w is opt.param_groups[0]['params'][0]\n"
        "assert w.grad is not None and opt.state[w]['step'] == 1 and w.requires_grad\n"
        "assert type(w) is nn.Parameter and tied.data_ptr() == w.data_ptr()\n"
        "base[2] = 77.; assert view[0] == 77. and npv[2] == 77. and half.sum() == 3\n"
        "assert meta.device.type == 'meta' and isinstance(net, Net)\n"
        "before = w.detach().clone(); net(x).pow(2).mean().backward(); opt.step()\n"
        "assert not torch.equal(before, net.out.weight)\n",
        moved(namespace),
    )


def test_b15_an_autograd_graph_is_refused_by_name():
    torch = pytest.importorskip("torch")
    loss = (torch.ones(3, requires_grad=True) * 2).sum()
    plan = plan_of(session(loss=loss, kept={"loss": loss}, good=np.ones(3)))
    assert plan["loss"].kind == plan["kept"].kind == "refused"
    assert "detach" in plan["loss"].remedy
    assert plan["good"].kind == "carried"


def test_b15_real_gpu_tensors_land_on_what_is_there(monkeypatch):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    on = torch.arange(50_000.0, device="cuda:0")
    namespace = session(on=on, part=on[5:], leaf=torch.ones(2, device="cuda:0", requires_grad=True))
    plan = plan_of(namespace)
    assert plan["on"].kind == "rebuilt"
    assert "cuda:0" in plan["on"].reason
    there = moved(namespace)
    assert there["on"].device.type == "cuda"
    there["on"][5] = -1
    assert there["part"][0] == -1
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    there = moved(namespace)
    assert there["on"].device.type == there["leaf"].device.type == "cpu"
    assert there["on"][49_999] == 49_999
