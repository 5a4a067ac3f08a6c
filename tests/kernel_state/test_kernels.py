"""Two real kernels: saved in one, which is killed; loaded in the other."""

from __future__ import annotations

import json
import os
import sqlite3

import pytest
from devcluster import kernel_state
from kernels import Kernel

pytestmark = pytest.mark.integration


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A function that starts kernels, all with one home; they end with the test."""
    monkeypatch.setenv("WAS_THERE", "1")
    monkeypatch.setenv("DEVCLUSTER_FLAVOR", "source")
    started = []

    def start():
        started.append(Kernel(tmp_path))
        return started[-1]

    yield start
    for kernel in started:
        kernel.close()


def test_a_session_moves_to_another_kernel(kernels, tmp_path, monkeypatch):
    source = kernels()
    source.run("import numpy as np, os, sys, random\nx = 41\nclass P: pass\np = P()")
    source.run("x + 1")
    source.run("[1, 2, 3]")
    source.run("_.append(4); y = _")
    source.run("def f(): return x\nalias = globals()\na = np.arange(100_000.); v = a[5:]")
    source.run(
        "os.environ['MINE'] = 'yes'; del os.environ['WAS_THERE']\n"
        "os.environ['CUDA_VISIBLE_DEVICES'] = '7'; os.environ['JPY_MINE'] = '1'\n"
        "os.makedirs('deep/er', exist_ok=True); os.chdir('deep/er')\n"
        "sys.path.insert(0, os.getcwd()); open('mine.py', 'w').write('V = 9')"
    )
    source.run("import mine\nrandom.seed(3); np.random.seed(4)")
    source.run("import threading; held = threading.Lock(); held.acquire(); o = get_ipython()")
    before = source.value("[sorted(globals()), len(In), get_ipython().execution_count, len(Out)]")
    plan = source.remote("plan_json()")
    assert (
        source.value("[sorted(globals()), len(In), get_ipython().execution_count, len(Out)]")
        == before
    )
    assert [v["name"] for v in plan["variables"] if v["kind"] == "refused"] == ["held"]
    assert "numpy" in plan["modules"]
    capture = tmp_path / "capture"
    saved = source.remote(f"save_json({str(capture)!r})")
    kinds = [(v["name"], v["kind"]) for v in plan["variables"]]
    assert [(v["name"], v["kind"]) for v in saved["variables"]] == kinds
    assert saved["bytes"] == capture.stat().st_size
    expected = source.value("[random.random(), np.random.rand()]")
    source.kill()

    monkeypatch.setenv("DEVCLUSTER_FLAVOR", "target")
    target = kernels()
    assert target.remote("warm_json(['numpy', 'no_such_module'])")["modules"] == ["numpy"]
    # The home that came over has other inodes, as after a real move.
    database = tmp_path / ".ipython" / "profile_default" / "history.sqlite"
    content = database.read_bytes()
    database.unlink()
    database.write_bytes(content)
    target.run("left_over = 1")
    report = target.remote(f"load_json({str(capture)!r})")
    assert report["variables"] == saved["variables"]
    probes = {
        "x == 41 and Out[2] == 42 and _2 == 42 and f() == 41": True,
        "type(p) is P and P.__module__ == '__main__' and y is Out[3] and y is _3": True,
        "y == [1, 2, 3, 4] and o is get_ipython() and alias is globals()": True,
        "In[2] == 'x + 1' and _i2 == 'x + 1' and len(In)": before[1],
        "_oh is Out and _ih is In and callable(exit) and 'left_over' not in globals()": True,
        "get_ipython().execution_count": before[2],
        "os.environ.get('MINE')": "yes",
        "'WAS_THERE' in os.environ or 'JPY_MINE' in os.environ": False,
        "os.environ.get('CUDA_VISIBLE_DEVICES')": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "os.environ['DEVCLUSTER_FLAVOR']": "target",
        "os.getcwd().endswith('deep/er') and mine.V == 9 and os.getcwd() in sys.path": True,
        "bool(np.shares_memory(a, v)) and 'held' not in globals()": True,
        "[random.random(), np.random.rand()]": expected,
    }
    for probe, value in probes.items():
        assert target.value(probe) == value, probe
    target.run("x = 50; assert f() == 50; 'recorded afterwards'")
    assert target.value("get_ipython().history_manager.writeout_cache()") is None
    with sqlite3.connect(database) as db:
        cells = [row[0] for row in db.execute("select source_raw from history order by line")]
    db.close()
    assert "x + 1" in cells
    assert "x = 50; assert f() == 50; 'recorded afterwards'" in cells


def test_all_four_work_in_cells_and_a_long_answer_comes_back_whole(kernels, tmp_path):
    kernel = kernels()
    kernel.run("from devcluster import kernel_state as ks; text = 'é\\n\\u2028\"' * 250_000; a = 1")
    kernel.run("assert {r.kind for r in ks.plan()} == {'carried'}, ks.plan()")
    kernel.run("report = ks.save('c'); a = 2; del text")
    kernel.run("loaded = ks.load('c')")
    kernel.run("assert a == 1 and len(text) == 1_000_000 and 'loaded' in dir()")
    kernel.run("class T: pass\nks.register(T, save=lambda t: 0, load=lambda s: T())")
    assert kernel.value("text") == 'é\n\u2028"' * 250_000
    into = tmp_path / "answer"
    assert kernel.remote(f"plan_json(into={str(into)!r})") == json.loads(into.read_text())
    with pytest.raises(RuntimeError, match="CaptureError"):
        kernel.remote("load_json('/nowhere')")
    assert kernel.value("a") == 1
    assert [r.name for r in kernel_state.read_records(tmp_path / "c")][:3] == ["ks", "text", "a"]


def test_settings_come_over_and_hooks_of_cells_are_named(kernels, tmp_path):
    source = kernels()
    source.run("%load_ext autoreload\nimport logging, os, sys, textwrap, warnings, signal")
    source.run("os.umask(0o027); sys.setrecursionlimit(4321)")
    source.run("deep = []\nfor _ in range(20_000): deep = [deep]")  # saved under another limit
    source.run("warnings.filterwarnings('ignore', 'about mine')")
    source.run("logging.getLogger('mine').setLevel('DEBUG'); logging.root.setLevel(35)")
    source.run("from IPython.core.magic import register_line_magic")
    source.run("@register_line_magic\ndef shout(line): return line.upper()")
    source.run("def hook(*_): pass\nget_ipython().events.register('post_run_cell', hook)")
    source.run("signal.signal(signal.SIGUSR1, hook); textwrap.shorten = hook")
    source.run("class K: pass\nhtml = get_ipython().display_formatter.formatters['text/html']")
    source.run("html.for_type(K, hook); del html, signal, textwrap, register_line_magic")
    records = {v["name"]: v["kind"] for v in source.remote("plan_json()")["variables"]}
    named = {name: kind for name, kind in records.items() if name.startswith("(")}
    assert named == {
        "(textwrap.shorten)": "refused",
        "(signal SIGUSR1)": "refused",
        "(magic %shout)": "refused",
        "(event post_run_cell)": "refused",
        "(display of K)": "refused",
        "(extension IPython.extensions.autoreload)": "rebuilt",
    }
    capture = str(tmp_path / "capture")
    source.remote(f"save_json({capture!r})")
    source.kill()
    target = kernels()
    target.remote(f"load_json({capture!r})")
    settings = (
        "[os.umask(0), sys.getrecursionlimit(), logging.getLogger('mine').level, "
        "logging.root.level, "
        "'IPython.extensions.autoreload' in get_ipython().extension_manager.loaded, "
        "any('about mine' in str(f[1]) for f in warnings.filters)]"
    )
    assert target.value(settings) == [0o027, 4321, 10, 35, True, True]


def test_a_fresh_kernel_has_nothing_to_tell(kernels):
    assert kernels().remote("plan_json()")["variables"] == []
