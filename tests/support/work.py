"""Work to lose: what a person has built up in a notebook, and how to tell that it is whole."""

from __future__ import annotations

from tests.support.person import Notebook, Person
from tests.support.world import World

BUILD = """
import os, json, pathlib
import numpy as np
class Model:
    def __init__(self, rate): self.rate = rate
    def step(self): return self.rate * factor
factor = 3
model = Model(2)
alias = [model, model]
weights = np.arange(1000.0)
view = weights[10:20]
pathlib.Path('notes.txt').write_text('kept')
os.makedirs('data', exist_ok=True)
pathlib.Path('data/log.txt').write_text('one')
"""

CHECK = """
assert model.step() == 2 * factor and isinstance(model, Model)
assert alias[0] is alias[1] is model
view[0] = -5.0
assert weights[10] == -5.0 and weights.sum() != 0
weights[10] = 10.0
assert pathlib.Path('notes.txt').read_text() == 'kept'
assert pathlib.Path('data/log.txt').read_text() == 'one'
print('whole on', os.environ['DEVCLUSTER_HOST'], os.environ['DEVCLUSTER_FLAVOR'])
"""


async def at_work(alice: Person) -> Notebook:
    """Give Alice's notebook with state in it, in a workspace that runs."""
    if not await alice.hub_ready():
        await alice.spawn("cpu")
    for session, path, kernel in await alice.sessions():
        if path == "work.ipynb":
            notebook = await alice.attach(path, kernel, session)
            break
    else:
        notebook = await alice.open_notebook("work.ipynb")
    result = await notebook.run(BUILD)
    assert result.status == "ok", result
    return notebook


async def check_whole(alice: Person, notebook: Notebook) -> str:
    """Assert that everything is there; return the host that it is on."""
    result = await notebook.run(CHECK)
    assert result.status == "ok", result
    view = await alice.view()
    assert view.state == "running"
    assert result.text.split() == ["whole", "on", view.host, view.flavor], (result.text, view)
    sessions = await alice.sessions()
    assert (notebook.session_id, notebook.path, notebook.kernel_id) in sessions
    return view.host or ""


def other(flavor: str | None) -> str:
    """Return a flavor on another host than ``flavor``'s."""
    return "1xA100" if flavor != "1xA100" else "cpu"


async def break_it(world: World, alice: Person, point: str, action: str) -> str:
    """Switch with one planted fault; return how the move ended."""
    notebook = await at_work(alice)
    before = await alice.view()
    world.plant(point, action)
    with world.reviving():
        end = await alice.switch_and_wait(other(before.flavor))
        await alice.until(lambda v: v.state == "running", "the workspace to run")
    assert end.move is not None
    host = await check_whole(alice, notebook)
    if end.move.status == "done":
        assert host != before.host
    else:
        assert host == before.host
        assert end.move.reason, "the person was not told why"
    await notebook.close()
    return end.move.status
