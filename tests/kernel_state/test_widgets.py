"""Widgets stay bound to the models that the browser has; jupyter_client plays the browser."""

from __future__ import annotations

import queue

import pytest
from kernels import Kernel
from sessions import moved, plan_of, session

CODE = """
import ipywidgets as W, traitlets
sl = W.IntSlider(value=3, max=10); seen = []
sl.observe(lambda change: seen.append(change['new']), names='value')
lab = W.Label(); lk = W.jslink((sl, 'value'), (lab, 'value')); box = W.VBox([sl, lab])
text = W.IntText(); both = W.link((sl, 'value'), (text, 'value')); out = W.Output()
btn = W.Button(description='b'); hits = []; btn.on_click(lambda b: hits.append(b))
image = W.Image(value=b'png' * 9); gone = W.Text(); gone.close()
tab = W.Tab([box]); up = W.FileUpload()
def work(x): worked.append(x)
worked = []; inter = W.interactive(work, x=(0, 5)); select = W.Dropdown(options={'a': 1, 'b': 2})
class Own(W.DOMWidget):
    _model_name = traitlets.Unicode('OwnModel').tag(sync=True)
    size = traitlets.Int(1).tag(sync=True)
    doubled = traitlets.Int(0)
    @traitlets.observe('size')
    def _on_size(self, change): self.doubled = 2 * change['new']
def shown(y): drawn.append(y)
drawn = []; inter_id = W.interact(shown, y=(0, 9)).widget.model_id
own = Own(size=4); ids = [w.model_id for w in (sl, lab, box, btn, own)]
"""


@pytest.fixture
def kernels(tmp_path):
    pytest.importorskip("ipywidgets")
    started: list[Kernel] = []

    def start() -> Kernel:
        started.append(Kernel(tmp_path))
        return started[-1]

    yield start
    for kernel in started:
        kernel.close()


def comm_messages(kernel: Kernel) -> list[dict]:
    """Return the comm messages that the browser has been sent since the last look."""
    found = []
    while True:
        try:
            message = kernel.client.get_iopub_msg(timeout=0.2)
        except queue.Empty:
            return found
        if message["msg_type"].startswith("comm_"):
            found.append({"type": message["msg_type"], **message["content"]})


def from_browser(kernel: Kernel, model: str, state: dict) -> None:
    """Send what the browser sends when the person moves a widget."""
    data = {"method": "update", "state": state, "buffer_paths": []}
    message = kernel.client.session.msg("comm_msg", {"comm_id": model, "data": data})
    kernel.client.shell_channel.send(message)


def test_widgets_and_their_models_go_on_talking_after_a_move(kernels, tmp_path):
    source = kernels()
    source.run(CODE)
    models = source.value("ids")
    plan = source.remote("plan_json()")["variables"]
    assert [r for r in plan if r["kind"] == "refused"] == []
    comm_messages(source)
    source.remote(f"save_json({str(tmp_path / 'capture')!r})")
    assert comm_messages(source) == []
    source.kill()

    target = kernels()
    target.remote(f"load_json({str(tmp_path / 'capture')!r})")
    assert comm_messages(target) == []  # no model is made twice, none is closed
    target.run("sl.value = 6; assert seen == [6] and text.value == 6")
    sent = [m for m in comm_messages(target) if m["comm_id"] == models[0]]
    assert [(m["type"], m["data"]["state"]) for m in sent] == [("comm_msg", {"value": 6})]
    from_browser(target, models[0], {"value": 9})
    from_browser(target, models[4], {"size": 5})
    data = {"method": "custom", "content": {"event": "click"}}
    click = target.client.session.msg("comm_msg", {"comm_id": models[3], "data": data})
    target.client.shell_channel.send(click)
    target.run(
        "assert sl.value == 9 and seen == [6, 9] and own.doubled == 10 and hits == [btn]\n"
        "assert [w.model_id for w in (sl, lab, box, btn, own)] == ids\n"
        "assert box.children == (sl, lab) and lk.source == (sl, 'value')\n"
        "assert tab.children[0] is box and up.value == ()\n"
        "assert sl.layout is box.children[0].layout and bytes(image.value) == b'png' * 9\n"
        "assert gone.comm is None and select.value == 1 and type(own) is Own\n"
        "worked.clear(); inter.children[0].value = 4; assert worked == [4]\n"
        "drawn.clear(); from ipywidgets.widgets.widget import _instances\n"
        "_instances[inter_id].children[0].value = 7; assert drawn == [7]\n"
        "both.unlink(); sl.value = 1; assert text.value == 9\n"
        "with out: print('hello')\n"
        "new = W.IntSlider(); assert new.model_id not in ids\n"
    )
    comm_messages(target)
    target.run("sl.close()")
    assert [m["comm_id"] for m in comm_messages(target) if m["type"] == "comm_close"] == models[:1]


def test_observers_of_any_object_with_traits_come_over():
    pytest.importorskip("traitlets")
    namespace = session(
        "import traitlets\n"
        "class Knob(traitlets.HasTraits):\n"
        "    level = traitlets.Int(1); twice = traitlets.Int()\n"
        "    @traitlets.validate('level')\n"
        "    def _bounded(self, proposal): return min(proposal['value'], 5)\n"
        "    @traitlets.observe('level')\n"
        "    def _level(self, change): self.twice = 2 * change['new']\n"
        "a, b, seen = Knob(level=2), Knob(), []\n"
        "a.observe(lambda change: seen.append(change['new']), 'level')\n"
        "link = traitlets.link((a, 'level'), (b, 'level'))\n"
    )
    assert plan_of(namespace)["a"].kind == "carried"
    exec(
        "a.level = 9; assert (a.level, a.twice, b.level, seen) == (5, 10, 5, [5])\n"
        "link.unlink(); a.level = 3; assert b.level == 5 and seen == [5, 3]\n",
        moved(namespace),
    )
