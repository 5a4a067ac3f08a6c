"""A spawner as the hub makes it, with a stub manager over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from devcluster.spawner import DevClusterSpawner
from jupyterhub import orm
from jupyterhub.objects import Hub

from tests.support.stub_manager import StubManager, stub_manager

Make = Callable[..., DevClusterSpawner]


@pytest.fixture
def manager() -> Iterator[tuple[StubManager, str]]:
    with stub_manager() as both:
        yield both


@pytest.fixture
def stub(manager: tuple[StubManager, str]) -> StubManager:
    return manager[0]


@pytest.fixture
def make(manager: tuple[StubManager, str]) -> Make:
    """Return a function that makes spawners for the stub."""

    def made(user: str = "alice", name: str = "", **settings: object) -> DevClusterSpawner:
        spawner = DevClusterSpawner(
            hub=Hub(base_url="/hub/", ip="127.0.0.1", port=1),
            user=SimpleNamespace(name=user, url=f"/user/{user}/", escaped_name=user),
            **(
                {
                    "manager_url": manager[1],
                    "manager_token": "s3",
                    "netswitch_url": "http://127.0.0.1:9",
                    "wait_s": 5.0,
                    "cmd": ["jupyterhub-singleuser"],
                }
                | settings
            ),
        )
        where = orm.Server(
            ip="127.0.0.1",
            port=9,
            proto="http",
            cookie_name="",
            base_url=f"/user/{user}/" + (f"{name}/" if name else ""),
        )
        spawner.orm_spawner = SimpleNamespace(name=name, server=where, user_options={})
        spawner.api_token = "hub-token"
        return spawner

    return made
