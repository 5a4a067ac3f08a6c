"""What people install: the wheel, made from the sdist, holds what the tree holds."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import distribution, version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TARGET = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
PANEL = "share/jupyter/labextensions/@devcluster/panel"


def tracked(*folders: str) -> set[str]:
    """Return the files below folders that git has, or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return {name for name in listed if (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], zipfile.ZipFile]:
    """Return the sdist's file names and the wheel that was built from that sdist."""
    out = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    return names, zipfile.ZipFile(wheel)


def test_the_wheel_has_every_module_of_the_tree_and_no_other(
    built: tuple[set[str], zipfile.ZipFile],
) -> None:
    excluded = tuple(TARGET["exclude"])
    expected = {
        f"devcluster/{name}"
        for name in tracked(*TARGET["only-include"])
        if not name.startswith(excluded) and Path(name).name != ".gitignore"
    }
    names = {name for name in built[1].namelist() if name.startswith("devcluster/")}
    assert names == expected


def test_nothing_bare_leaks_into_site_packages(
    built: tuple[set[str], zipfile.ZipFile],
) -> None:
    tops = {name.partition("/")[0] for name in built[1].namelist()}
    release = PROJECT["project"]["version"]
    assert tops == {"devcluster", f"devcluster-{release}.dist-info", f"devcluster-{release}.data"}


def test_the_panel_and_the_jupyter_files_are_in(
    built: tuple[set[str], zipfile.ZipFile],
) -> None:
    data = f"devcluster-{PROJECT['project']['version']}.data/data/"
    names = {name.removeprefix(data) for name in built[1].namelist() if name.startswith(data)}
    assert f"{PANEL}/package.json" in names
    assert any(re.match(rf"{PANEL}/static/remoteEntry\..*\.js$", name) for name in names)
    assert set(TARGET["shared-data"].values()) <= names


def test_the_sdist_can_be_built_and_tested(built: tuple[set[str], zipfile.ZipFile]) -> None:
    names, _ = built
    kept = tracked(
        "demo", "tests", "jupyterhub_config.py", "hatch_build.py", "README.md", "LICENSE"
    )
    assert kept <= names
    assert not [name for name in names if "node_modules" in name]


def test_the_version_is_the_changelogs_newest() -> None:
    newest = re.search(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest is not None
    assert newest[1] == PROJECT["project"]["version"] == version("devcluster")


def test_every_entry_point_loads() -> None:
    ours = distribution("devcluster").entry_points
    groups = {"console_scripts", "jupyterhub.spawners"}
    assert {point.group for point in ours} >= groups
    for point in ours:
        assert callable(point.load()), point


def test_every_top_level_folder_of_ours_is_in_all_lists() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"demo", "tests"}
    sdist = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    assert packages == set(TARGET["only-include"]) == set(TARGET["sources"])
    assert packages <= set(sdist)
