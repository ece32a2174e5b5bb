"""Exceptions of handlers go to Sentry; its SDK here is a stand-in."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from rig import Script

from prosody import PermanentError, ProsodyClient, TransientError, reports


class Sentry(types.ModuleType):
    """What the package sentry_sdk offers, as far as it is used."""

    def __init__(self) -> None:
        super().__init__("sentry_sdk")
        self.inits = 0
        self.reported: list[tuple[BaseException, dict[str, Any]]] = []
        self.scope: dict[str, Any] = {}

    def is_initialized(self) -> bool:
        return self.inits > 0

    def init(self) -> None:
        self.inits += 1

    @contextlib.contextmanager
    def new_scope(self) -> Iterator[Sentry]:
        self.scope = {}
        yield self

    def set_tag(self, name: str, value: str) -> None:
        self.scope[name] = value

    def set_context(self, name: str, value: dict[str, Any]) -> None:
        self.scope[name] = value

    def capture_exception(self, error: BaseException) -> None:
        self.reported.append((error, self.scope))


@pytest.fixture
def sentry(monkeypatch: pytest.MonkeyPatch) -> Sentry:
    made = Sentry()
    monkeypatch.setenv("SENTRY_DSN", "https://key@example.invalid/1")
    monkeypatch.setitem(sys.modules, "sentry_sdk", made)
    monkeypatch.setattr(reports, "_sdk", None)
    return made


async def fail(options: dict[str, Any], topic: str, *errors: BaseException) -> None:
    """Runs a handler that raises each of the errors for a record of its own."""
    left = list(errors)
    done = asyncio.Event()

    async def work(_context: Any, _message: Any) -> None:
        if not left:
            done.set()
            return
        raise left.pop(0)

    async with await ProsodyClient.create(**options) as client:
        await client.subscribe(Script(work))
        for _ in errors:
            await client.send(topic, "k", 1)
        await client.excise(topic, "k")
        await done.wait()


async def test_an_exception_is_reported_with_its_event(
    sentry: Sentry, options: dict[str, Any], unique: str
) -> None:
    problem = ValueError("bad")
    wrapped = PermanentError("given up")
    wrapped.__cause__ = KeyError("cause")
    await fail(options, unique, problem, wrapped, TransientError("again"))
    assert sentry.inits == 1
    found = [(repr(error), scope["prosody.event_type"]) for error, scope in sentry.reported]
    assert found[:2] == [("ValueError('bad')", "message"), ("KeyError('cause')", "message")]
    assert "TransientError" in found[2][0]
    about = sentry.reported[0][1]["prosody"]
    assert about["topic"] == unique
    assert about["key"] == "k"
    assert {"partition", "offset"} <= set(about)


async def test_without_a_dsn_nothing_is_reported(
    sentry: Sentry, options: dict[str, Any], unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SENTRY_DSN")
    await fail(options, unique, PermanentError("bad"))
    assert (sentry.inits, sentry.reported) == (0, [])


async def test_a_missing_sdk_is_one_line(
    sentry: Sentry,
    options: dict[str, Any],
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(sys.modules, "sentry_sdk", None)
    await fail(options, unique, PermanentError("a"), PermanentError("b"))
    lines = [line for line in caplog.records if line.name == "prosody.sentry"]
    assert [line.getMessage() for line in lines] == [
        "SENTRY_DSN is set, but the package sentry-sdk is missing"
    ]


async def test_a_report_that_fails_does_no_harm(
    sentry: Sentry, options: dict[str, Any], unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_error: BaseException) -> None:
        raise RuntimeError("no network")

    monkeypatch.setattr(sentry, "capture_exception", broken)
    await fail(options, unique, PermanentError("a"))
    assert sentry.reported == []
