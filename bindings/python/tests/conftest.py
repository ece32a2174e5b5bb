"""Runs coroutine tests, each on a loop of its own, and offers the fixtures of the suite."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

for name in [name for name in os.environ if name.startswith("PROSODY_")]:
    if name != "PROSODY_LIBRARY":
        del os.environ[name]

LIMIT_S = 60
_names = itertools.count()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def run() -> None:
        await asyncio.wait_for(pyfuncitem.obj(**arguments), LIMIT_S)

    asyncio.run(run())
    return True


@pytest.fixture
def unique() -> str:
    """A name that no other test uses."""
    return f"test-{os.getpid()}-{next(_names)}"


@pytest.fixture
def options(unique: str) -> dict[str, Any]:
    """Options of a client in mock mode that sees its own records."""
    return {
        "bootstrap_servers": unique,
        "mock": True,
        "group_id": f"{unique}-group",
        "source_system": f"{unique}-source",
        "subscribed_topics": unique,
        "shutdown_timeout": 5.0,
    }


async def eventually(
    accept: Callable[[], Any] | Callable[[], Awaitable[Any]], what: str, limit: float = 20.0
) -> None:
    """Waits for a condition, and fails at the deadline."""
    deadline = asyncio.get_running_loop().time() + limit
    while True:
        answer = accept()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return
        assert asyncio.get_running_loop().time() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", logger="prosody")
