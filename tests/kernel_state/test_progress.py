"""Progress bars go on from where they were, each in its line."""

from __future__ import annotations

import pytest
from sessions import moved, plan_of, session

pytest.importorskip("tqdm")

CODE = """
import io, sys
from tqdm import tqdm
text = io.StringIO()
bar = tqdm(total=10, file=text, desc='load', position=0); bar.update(4); bar.set_postfix(a=1)
second = tqdm(total=3, file=text, position=1); shown = tqdm(total=3, file=sys.stderr)
closed = tqdm(range(3), file=text)
for _ in closed: pass
fresh = tqdm([1, 2], file=text); quiet = tqdm(total=2, disable=True)
class Mine(tqdm): pass
mine = Mine(total=2, file=text); mine.update()
"""


def test_bars_go_on_and_closed_ones_stay_closed():
    namespace = session(CODE)
    plan = plan_of(namespace)
    assert [r for r in plan.values() if r.kind == "refused"] == []
    assert plan["bar"].kind == "rebuilt"
    assert plan["quiet"].kind == "carried"
    there = moved(namespace)
    exec(
        "before = len(text.getvalue()); bar.update(6); bar.refresh()\n"
        "assert bar.n == 10 and '10/10' in text.getvalue()[before:]\n"
        "assert bar.fp._wrapped is text and shown.fp._wrapped is sys.stderr\n"
        "assert closed.n == 3 and closed.disable and list(fresh) == [1, 2] and mine.n == 1\n"
        "assert bar in tqdm._instances and second in tqdm._instances\n"
        "assert closed not in tqdm._instances and quiet.disable and second.pos == -1\n",
        there,
    )
    for each in (namespace, there):
        for name in ("bar", "second", "shown", "mine"):
            each[name].close()
