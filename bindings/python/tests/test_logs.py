"""Lines of the library in the logging module."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from conftest import eventually
from rig import Script

from prosody import PermanentError, ProsodyClient

KEY = 'customer\n2030-01-01 ERROR forged "4711"\u202e'
LAST = ("discarding message", "copying record to the failure topic")


@pytest.mark.parametrize("mode", ["pipeline", "low-latency"])
async def test_a_message_that_is_given_up_has_one_line(
    mode: str, options: dict[str, Any], unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It tells the place and the reason, on one line and as extras; the next one goes on."""
    caplog.set_level(logging.INFO, logger="prosody")
    done = asyncio.Event()

    async def work(_context: Any, message: Any) -> None:
        if message.payload == "good":
            done.set()
        elif mode == "pipeline":
            raise PermanentError("no such\naccount")
        else:
            raise ValueError("no such\naccount")

    more = (
        {"max_retries": 1, "retry_base": 0.001, "failure_topic": f"{unique}-failed"}
        if mode == "low-latency"
        else {}
    )
    async with await ProsodyClient.create(**options, mode=mode, **more) as client:
        await client.subscribe(Script(work))
        for payload in ("bad", "good"):
            await client.send(unique, KEY, payload)
        await done.wait()

    def found() -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.getMessage().startswith(LAST)]

    await eventually(found, "a line")
    (line,) = found()
    assert line.levelno == logging.ERROR
    extra: dict[str, Any] = vars(line)
    assert (extra["topic"], extra["offset"], extra["key"]) == (unique, 0, KEY)
    assert extra["partition"] in range(3)
    assert extra["reason"].endswith("no such\naccount")
    text = line.getMessage()
    assert text.isprintable()
    for part in (
        f"topic={unique}",
        "partition=",
        "offset=0",
        r"key=customer\n2030",
        r"\u202e",
        r"no such\naccount",
    ):
        assert part in text
