"""Calls end once and fit asyncio; log lines and faults arrive."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import fake
import pytest
from rig import TRANSIENT, Rig, Script

from prosody import native


async def test_logs_and_fatal(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(Script())
    rig.put(
        fake.line(30, "prosody::x", "text", b'{"partition":3,"name":"n"}'),
        fake.line(5, "prosody::x", "not wanted"),
        fake.line(40, "prosody::y", "bad fields", b"nonsense"),
        fake.line(30, "", "100%s"),
        fake.fatal("broken"),
        fake.message(1),
    )
    caplog.set_level(logging.WARNING)
    await rig.outcomes(1)
    first, second, third = caplog.records[:3]
    assert (first.name, first.levelno) == ("prosody::x", 30)
    assert first.getMessage() == "text partition=3 name=n"
    assert (first.partition, first.name_) == (3, "n")  # type: ignore[attr-defined]
    assert first.created == 1e9
    assert second.getMessage() == "bad fields fields=nonsense"
    assert (third.name, third.getMessage()) == ("prosody", "100%s")
    assert rig.process.poisoned == ["broken"]


async def test_failing_log_handlers_do_no_harm(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(_: logging.LogRecord) -> bool:
        raise RuntimeError("no logging today")

    async def work(context: Any, message: Any) -> None:
        raise ValueError("x")

    loggers = [logging.getLogger(name) for name in ("prosody.handler", "odd")]
    for logger in loggers:
        logger.addFilter(refuse)
    try:
        rig = Rig(Script(work))
        rig.put(fake.line(40, "odd", "x"), fake.message(1), fake.message(2))
        assert [outcome[1] for outcome in await rig.outcomes(2)] == [TRANSIENT, TRANSIENT]
    finally:
        for logger in loggers:
            logger.removeFilter(refuse)
    assert "no logging today" in capsys.readouterr().err


async def test_calls_end_once() -> None:
    rig = Rig(Script())
    port, library = rig.port, rig.library
    good = port.begin("x", library.call, "handle")
    bad = port.begin("x", library.call, "handle")
    wrong = port.begin("x", library.call, "handle")
    gone = port.begin("x", library.call, "handle")
    gone.future.cancel()
    tags = [tag for _, tag in library.called]
    library.put(
        port,
        fake.completion(tags[0], 0),
        fake.completion(tags[0], 300, "again"),
        fake.completion(tags[1], 300, "too\0late", category=3),
        fake.completion(tags[2], native.ERR_ARGUMENT, "wrong"),
        fake.completion(tags[3], 0),
        fake.completion(12345, 0),
    )
    assert await good is None
    with pytest.raises(RuntimeError, match=r"^too\x00late$") as caught:
        await bad
    assert caught.value.category == "transient"  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="wrong"):
        await wrong
    assert not port.pending
    library.answer = 103
    with pytest.raises(RuntimeError):
        await port.begin("x", library.call, "handle")
    assert not port.pending


async def test_dropped_failures_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(Script())
    rig.library.answer = 103
    rig.port.begin("subscribe", rig.library.call, "handle")
    await asyncio.sleep(0)
    assert [r.getMessage() for r in caplog.records if r.name != "asyncio"] == [
        "subscribe failed, and its result was not awaited: PROSODY_ERR_103"
    ]
    assert not [r for r in caplog.records if r.name == "asyncio"]


async def test_calls_are_coroutines_and_futures() -> None:
    rig = Rig(Script())
    done = rig.port.done
    assert asyncio.iscoroutine(done("x", lambda: 1))
    assert await asyncio.create_task(done("x", lambda: 1)) == 1
    assert await asyncio.ensure_future(done("x", lambda: 2)) == 2
    assert await asyncio.wait_for(done("x", lambda: 3), 60) == 3
    assert await asyncio.gather(done("x", lambda: 4), done("x", lambda: 5)) == [4, 5]
    with pytest.raises(ZeroDivisionError):
        await asyncio.create_task(done("x", lambda: 1 // 0))
    await asyncio.wait({asyncio.ensure_future(done("x", lambda: 6))})
    waiting = rig.port.begin("x", rig.library.call, "handle")
    task = asyncio.create_task(waiting)
    repr(task)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert waiting.future.cancelled()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    waiting.close()
