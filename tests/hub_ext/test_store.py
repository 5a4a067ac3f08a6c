"""The store on SQLite, and on PostgreSQL where a server can be started."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from devcluster.core.errors import BadRequest, NotFound, Stale
from devcluster.core.lifecycle import InvalidMove, MoveKind, State
from devcluster.hub_ext.flavors import read_flavors
from devcluster.hub_ext.store import Role, Store
from devcluster.hub_ext.store.consistency import check_consistency
from devcluster.hub_ext.store.models import Base

from tests.hub_ext.rig import FLAVORS, Clock, gpus


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Start a PostgreSQL server of our own."""
    found = sorted(glob("/usr/lib/postgresql/*/bin"))
    if not found:
        if os.environ.get("CI"):
            pytest.fail("CI has no PostgreSQL; .ci/run installs it from Debian's packages")
        pytest.skip("no PostgreSQL server is installed (/usr/lib/postgresql/*/bin)")
    binaries = found[-1]
    folder = Path(tempfile.mkdtemp(prefix="devcluster-pg-"))
    become: list[str] = []
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
        become = ["runuser", "-u", "postgres", "--"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = folder / "data"
    run = [*become, f"{binaries}/initdb", "-D", str(data), "-A", "trust", "-U", "dev", "-N"]
    subprocess.run(run, check=True, capture_output=True, cwd=folder)
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    control = [*become, f"{binaries}/pg_ctl", "-D", str(data), "-w"]
    start = [*control, "-l", str(folder / "log"), "-o", options, "start"]
    subprocess.run(start, check=True, capture_output=True, cwd=folder)
    try:
        yield f"postgresql://dev@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run(
            [*control, "-m", "fast", "stop"], check=True, capture_output=True, cwd=folder
        )
        shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/devcluster.sqlite"
    found: str = request.getfixturevalue("postgresql")
    store = Store(found, Clock())
    with store.engine.begin() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(table.delete())
    store.close()
    return found


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = Store(url, Clock())
    yield store
    store.close()


def test_migrations_lead_to_the_models(store: Store) -> None:
    with store.engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), Base.metadata)
    assert differences == []


def test_what_is_written_is_there_after_a_restart(url: str) -> None:
    store = Store(url, Clock())
    changed: list[set[str]] = []
    store.on_change = changed.append
    with store.transaction() as tx:
        row = tx.create("alice/default")
        flavor, cards = FLAVORS[1].model_dump(mode="json"), [gpus("A100", 1)[0].model_dump()]
        lease = tx.reserve(row, "a100-1", flavor, cards)
        move = tx.add_move(row, MoveKind.start, "hub", "1xA100")
        move.status, move.target = "running", lease.id
        tx.enter(row, State.starting, "", "test")
    assert changed == [{"alice/default"}]
    store.close()
    store = Store(url, Clock())
    with store.transaction() as tx:
        row = tx.workspace("alice/default")
        assert row.state == State.starting
        assert [x.role for x in tx.leases(row.id)] == [Role.target]
        assert [e.now for e in tx.events(row.id)] == [State.starting]
        assert tx.active_move(row.id) is not None
    assert check_consistency(store) == []
    store.close()


def test_a_block_that_fails_changes_nothing(store: Store) -> None:
    def fail() -> None:
        with store.transaction() as tx:
            row = tx.create("alice/default")
            tx.enter(row, State.deflated, "", "a defect")

    with pytest.raises(InvalidMove, match="created to deflated"):
        fail()
    with store.transaction() as tx, pytest.raises(NotFound):
        tx.workspace("alice/default")


def test_since_rises_with_each_change_of_what_belongs_to_it(store: Store) -> None:
    def since() -> float:
        with store.transaction() as tx:
            return tx.workspace("alice/default").since

    with store.transaction() as tx:
        tx.add_move(tx.create("alice/default"), MoveKind.start, "hub")
    first = since()
    with store.transaction() as tx:
        tx.open_moves()[0].reason = "waits"
    second = since()
    with store.transaction() as tx:
        tx.open_moves()[0].reason = "waits"
    assert first < second == since()


def test_b32_two_writers_at_once_do_not_both_win(store: Store, url: str) -> None:
    """One GPU, many threads that look and then reserve: exactly one gets it."""
    cards = [gpus("A100", 1)[0].model_dump()]
    with store.transaction() as tx:
        for i in range(6):
            tx.create(f"u{i}/default")
    got: list[str] = []
    begin = threading.Barrier(6)

    def reserve(workspace: str) -> None:
        mine = Store(url, Clock())
        begin.wait(10)
        for _ in range(20):
            try:
                with mine.transaction() as tx:
                    if not tx.leases():
                        tx.reserve(
                            tx.workspace(workspace), "h", FLAVORS[1].model_dump(mode="json"), cards
                        )
                        got.append(workspace)
                break
            except Stale:
                got[:] = [w for w in got if w != workspace]
        mine.close()

    threads = [threading.Thread(target=reserve, args=(f"u{i}/default",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    with store.transaction() as tx:
        assert [x.workspace for x in tx.leases()] == got
    assert len(got) == 1


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "devcluster.sqlite"
    Store(f"sqlite:///{path}", Clock()).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("wrong", ["nonsense", "mysql://x/y", "sqlite://", "sqlite:///:memory:"])
def test_a_wrong_url_says_what_is_allowed(wrong: str) -> None:
    with pytest.raises(BadRequest, match=r"sqlite"):
        Store(wrong, Clock())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("flavors: [{name: a, cpus: 1, memory: lots}]", "lots"),
        ("flavors: [{name: a, cpus: -1, memory: 1Gi}]", "flavors.0.cpus"),
        ("flavors: [{name: a, cpus: 1, memory: 1Gi, gpus: 1}]", "give both gpu_model and gpus"),
        ("flavors: [{name: a, cpus: 1, memory: 1Gi, colour: red}]", "colour"),
        ("flavors: [{name: a, cpus: 1, memory: 1Gi}, {name: a, cpus: 2, memory: 1Gi}]", "twice"),
        ("flavors: []", "flavors"),
        ("", "flavors"),
        ("{", "no YAML"),
    ],
)
def test_a_wrong_flavors_file_says_where(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "flavors.yaml"
    path.write_text(text)
    with pytest.raises(BadRequest, match=says):
        read_flavors(path)


def test_a_flavors_file(tmp_path: Path) -> None:
    path = tmp_path / "flavors.yaml"
    path.write_text("flavors: [{name: 1xA100, gpu_model: A100, gpus: 1, cpus: 4, memory: 8Gi}]")
    [flavor] = read_flavors(path)
    assert (flavor.gpus, flavor.memory) == (1, 8 * 2**30)
    with pytest.raises(BadRequest, match="cannot be read"):
        read_flavors(tmp_path / "missing.yaml")
