"""A broker of these tests' own, and groups that are cleaned up."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Broker, Group


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("services"))
    broker.up()
    try:
        yield broker
    finally:
        broker.call("wipe", "kafka")


@pytest.fixture
def broker(home: Broker) -> Iterator[Broker]:
    yield home
    home.resume()
    home.up()


@pytest.fixture
def groups(broker: Broker, tmp_path: Path) -> Iterator[Callable[..., Group]]:
    made: list[Group] = []

    def group(topics: str, **options: Any) -> Group:
        made.append(Group(broker, tmp_path, topics, **options))
        return made[-1]

    yield group
    for one in made:
        one.close()


@pytest.fixture
def unique() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"
