"""The pytest plugin: the fixture `prosody_service`, and coroutine tests that use it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from prosody.testing import Service

FIXTURE = "prosody_service"


@pytest.fixture
def prosody_service() -> Iterator[type[Service]]:
    """Makes services: `async with prosody_service(handler, topics="orders") as service:`."""
    made: list[Service] = []

    class Noted(Service):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)

    yield Noted
    if not all(service.closed for service in made):
        pytest.fail("a service is open: use `async with`", pytrace=False)


@pytest.hookimpl
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine test that uses the fixture, unless another plugin has done so."""
    if FIXTURE not in pyfuncitem.fixturenames or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True
