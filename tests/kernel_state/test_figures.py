"""Figures come over with the person's callbacks, and the current one stays the current one."""

from __future__ import annotations

import io

import pytest
from devcluster import kernel_state
from sessions import plan_of, session

CODE = """
import matplotlib; matplotlib.use('agg')
import matplotlib.pyplot as plt, numpy as np
from matplotlib.widgets import Slider
from matplotlib.ticker import FuncFormatter
from matplotlib.animation import FuncAnimation
fig, (left, right) = plt.subplots(1, 2, sharex=True); line, = left.plot(np.arange(5.))
image = right.imshow(np.eye(3)); bar = fig.colorbar(image); hits = []
left.xaxis.set_major_formatter(FuncFormatter(lambda v, p: f'<{v:g}>')); canvas = fig.canvas
fig.canvas.mpl_connect('button_press_event', lambda event: hits.append(event.canvas))
left.callbacks.connect('xlim_changed', lambda axes: hits.append(axes))
other, ax = plt.subplots(); closed = plt.figure(); plt.close(closed); lost = plt.figure()
slider = Slider(other.add_axes([0, 0, 1, 0.1]), 'a', 0, 1); slider.on_changed(hits.append)
anim = FuncAnimation(other, lambda i: [line], frames=3, cache_frame_data=False)
anim._draw_was_started = True; plt.figure(fig.number); ids = plt.get_fignums(); del lost
"""


@pytest.fixture
def plt():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    yield pyplot
    pyplot.close("all")


def test_figures_come_over_with_callbacks_numbers_and_the_current_one(plt):
    namespace = session(CODE)
    plan = plan_of(namespace)
    assert [r for r in plan.values() if r.kind == "refused"] == []
    assert "(figure 3)" in plan  # pyplot alone holds it
    stream = io.BytesIO()
    kernel_state.save(stream, namespace=namespace)
    stream.seek(0)
    plt.close("all")  # pyplot of the target
    there = session()
    kernel_state.load(stream, namespace=there)
    exec(
        "assert left.figure is fig and left.lines[0] is line and bar.mappable is image\n"
        "assert plt.gcf() is fig and plt.get_fignums() == ids and plt.fignum_exists(3)\n"
        "assert plt.figure(other.number) is other\n"
        "left.set_xlim(0, 9); assert right.get_xlim() == (0, 9) and hits == [left]\n"
        "line.set_ydata([5, 4, 3, 2, 1]); fig.savefig(__import__('io').BytesIO())\n"
        "from matplotlib.backend_bases import MouseEvent\n"
        "MouseEvent('button_press_event', fig.canvas, 1, 1, 1)._process()\n"
        "assert hits == [left, canvas] and canvas is fig.canvas and slider.canvas is other.canvas\n"
        "slider.set_val(0.5); assert hits[-1] == 0.5\n"
        "assert left.xaxis.get_major_formatter()(3) == '<3>'\n"
        "anim._draw_was_started = True\n",
        there,
    )
