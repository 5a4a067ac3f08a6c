"""B15: tensors come over with their sharing, onto the device that the target has.

Needs PyTorch, which is no dependency of this project: without it only the choice of the
device is tested, against a torch as thin as can be.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from devcluster.kernel_state.loading import loading
from devcluster.kernel_state.session import Session
from devcluster.kernel_state.types.torch import place_for
from sessions import moved, plan_of, session


@pytest.mark.parametrize(
    ("devices", "gpus", "places"),
    [
        (["cuda:3"], 0, ["cpu"]),
        (["cuda:3"], 1, ["cuda:0"]),
        (["cuda:0"], 1, ["cuda:0"]),
        (["cuda:1"], 2, ["cuda:1"]),
        (["cuda"], 1, ["cuda"]),
        (["cpu"], 2, ["cpu"]),
        (["strange:0"], 2, ["cpu"]),
        (["cuda:2", "cuda:3", "cuda:2"], 2, ["cuda:0", "cuda:1", "cuda:0"]),
        (["cuda:3", "cuda:0"], 2, ["cuda:0", "cuda:1"]),
        (["cuda:0", "cuda:1", "cuda:2", "cuda:3"], 2, ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]),
    ],
)
def test_b15_distinct_devices_stay_distinct_as_far_as_there_are_devices(
    monkeypatch, devices, gpus, places
):
    cuda = SimpleNamespace(is_available=lambda: gpus > 0, device_count=lambda: gpus)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    with loading(Session({}), None):
        assert [place_for(device) for device in devices] == places


def test_b15_what_is_on_devices_keeps_its_sharing_on_fewer_devices(monkeypatch):
    """A backend of which only the two crossings between host and device are pretended."""
    torch = pytest.importorskip("torch")
    ours = "devcluster.kernel_state.types.torch"
    module = sys.modules[ours]
    namespace = session(
        "import torch\na = torch.arange(50_000.); part = a[5:]; b = torch.ones(3)\n"
        "leaf = torch.nn.Parameter(a[:2]); device = torch.device('cuda:3')\n"
    )
    on = {namespace["a"].untyped_storage()._cdata: "cuda:3"}
    on[namespace["b"].untyped_storage()._cdata] = "cuda:1"
    monkeypatch.setattr(module, "device_of", lambda storage: on.get(storage._cdata, "cpu"))
    arrived = []
    monkeypatch.setattr(
        module, "on_device", lambda storage, place: arrived.append(place) or storage.clone()
    )
    plan = plan_of(namespace)
    assert {plan[name].kind for name in ("a", "b", "device")} == {"rebuilt"}
    assert "cuda:3" in plan["a"].reason
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: 2)
        there = moved(namespace)
    assert arrived == ["cuda:0", "cuda:1"]
    assert there["device"] == torch.device("cuda:0")
    there["a"][5] = -1
    assert there["part"][0] == -1
    assert there["leaf"].data_ptr() == there["a"].data_ptr()
    assert moved(namespace)["device"] == torch.device("cpu")


MANY_KINDS = """
import torch, torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split
cx = torch.ones(2, dtype=torch.complex64); conj = cx.conj(); neg = cx.conj().imag
sparse = torch.eye(3).to_sparse(); bits = torch.tensor([True, False]); zero = torch.tensor(3.)
wide = torch.ones(1, 3).expand(4, 3); turned = torch.arange(6).reshape(2, 3).t()
class Tagged(torch.Tensor): pass
tagged = torch.ones(2).as_subclass(Tagged); tagged.tag = 't'
gen = torch.Generator().manual_seed(3); same = gen; own = torch.default_generator
net = nn.ModuleList([nn.Linear(2, 2), nn.DataParallel(nn.Linear(2, 2))])
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 0.5 ** epoch)
w = net[0].weight; seen = []; hook = w.register_hook(lambda grad: seen.append(1))
after = w.register_post_accumulate_grad_hook(lambda p: seen.append(2))
scaler = torch.amp.GradScaler('cpu'); data = TensorDataset(torch.arange(10.))
loader = DataLoader(data, batch_size=5, generator=gen); train, test = random_split(data, [6, 4])
compiled = torch.compile(nn.Linear(2, 2)); lazy = nn.LazyLinear(3); limits = torch.finfo(torch.half)
store = zero.untyped_storage(); shared = torch.ones(2).share_memory_()
typed = torch.storage.TypedStorage(wrap_storage=store, dtype=torch.float32, _internal=True)
"""


def test_b15_tensors_of_many_kinds_and_what_goes_with_them_come_over():
    pytest.importorskip("torch")
    namespace = session(MANY_KINDS)
    assert [r for r in plan_of(namespace).values() if r.kind == "refused"] == []
    drawn = namespace["gen"].get_state()
    there = moved(namespace)
    exec(
        "assert conj.is_conj() and neg.is_neg(); cx[0] = 5j\n"
        "assert conj[0] == -5j and neg[0] == -5 and sparse.to_dense().sum() == 3\n"
        "assert wide.stride() == (0, 1) and turned.stride() == (1, 3) and zero.dim() == 0\n"
        "assert tagged.tag == 't' and type(tagged) is Tagged and bits.dtype is torch.bool\n"
        "assert same is gen is loader.generator and own is torch.default_generator\n"
        "assert sched.optimizer is opt and opt.param_groups[0]['params'][0] is w\n"
        "net[0](torch.ones(1, 2)).sum().backward(); assert seen == [1, 2]\n"
        "hook.remove(); after.remove(); w.sum().backward(); assert seen == [1, 2]\n"
        "assert train.dataset is data and scaler.is_enabled() and len(list(loader)) == 2\n"
        "assert type(net[1]) is nn.DataParallel\n"
        "store.copy_(torch.tensor([4.]).untyped_storage()); assert zero == 4\n"
        "assert limits.bits == 16 and typed._untyped_storage.data_ptr() == zero.data_ptr()\n"
        "assert lazy(torch.ones(1, 5)).shape == (1, 3) and shared.sum() == 2\n"
        "assert isinstance(compiled, type(torch.compile(nn.Linear(2, 2))))\n",
        there,
    )
    assert drawn.equal(namespace["gen"].get_state())


def test_b15_work_under_way_is_refused_and_a_loader_with_workers_at_rest_is_not():
    torch = pytest.importorskip("torch")
    namespace = session(
        "from torch.utils.data import DataLoader\n"
        "loader = DataLoader(range(4)); it = iter(loader); next(it)\n"
        "rest = DataLoader(range(4), num_workers=1, persistent_workers=True)\n",
        script=torch.jit.trace(torch.nn.Linear(1, 1), torch.ones(1, 1)),
    )
    namespace["rest"]._iterator = namespace["it"]  # as after an epoch
    plan = plan_of(namespace)
    assert {n for n, r in plan.items() if r.kind == "refused"} == {"it", "script"}
    assert "epoch" in plan["it"].remedy
    assert plan["rest"].kind == "rebuilt"
    there = moved(namespace)
    assert there["rest"]._iterator is None
    assert there["rest"].persistent_workers


def test_b15_random_numbers_of_devices_go_where_their_tensors_go(monkeypatch):
    torch = pytest.importorskip("torch")
    module = sys.modules["devcluster.kernel_state.types.torch"]
    state = bytes(16)
    given = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda s, place: given.append((bytes(s), place))
    )
    with loading(Session({}), None):
        assert place_for("cuda:2") == "cuda:0"
        module.unpack_random({"cuda:0": state, "cuda:2": bytes([1] * 16)})
    assert given == [(bytes([1] * 16), "cuda:0")]


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
