"""Records of foreign producers, and names of topics, on a real broker."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from cluster import Broker, options_of
from foreign import Raw, write

from prosody import EventHandler, ProsodyClient


class Recorder(EventHandler[Any, Any]):
    def __init__(self) -> None:
        self.events: list[Any] = []
        self.last = asyncio.Event()

    async def on_message(self, context: Any, message: Any) -> None:
        self.events.append(message)
        if getattr(message, "payload", None) == "last":
            self.last.set()

    on_excise = on_message

    async def on_timer(self, context: Any, timer: Any) -> None:
        raise NotImplementedError


async def consume(broker: Broker, topic: str, records: list[Raw], **more: Any) -> Recorder:
    """What a fresh group makes of the records; all of them are committed after."""
    write(broker.address, topic, [*records, Raw(b"last", b'"last"')])
    handler, group = Recorder(), f"g-{topic}"
    async with await ProsodyClient.create(**options_of(broker, group, topic) | more) as client:
        await client.subscribe(handler)
        await asyncio.wait_for(handler.last.wait(), 30)
        for _ in range(100):  # the others may be behind the last one
            if broker.committed(group) == {(topic, 0): len(records) + 1}:
                break
            await asyncio.sleep(0.1)
    assert broker.committed(group) == {(topic, 0): len(records) + 1}
    handler.events.sort(key=lambda event: event.offset)
    handler.events.pop()
    return handler


async def test_null_and_empty(
    broker: Broker, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="prosody")
    broker.topic(unique)
    odd = ((b"a", None), (b"b", b""), (b"a", b"\xff\xfe"), (b"", b"1"), (b"\xff", b"2"))
    many = tuple((b"n%d" % n, b"%d" % n) for n in range(1000))
    values = [None, b"", b"null", b'""', b"1", b"1", b"1"]
    headers = [(), (), (), (), odd, many, ((b"source-system", None), (b"source-system", b"x"))]
    handler = await consume(
        broker,
        unique,
        [Raw(b"k", value, headers=some) for value, some in zip(values, headers, strict=True)],
    )
    kinds = [type(event).__name__ for event in handler.events]
    assert kinds == ["ExciseMessage"] + ["Message"] * 5
    assert [event.payload for event in handler.events[1:]] == [None, "", 1, 1, 1]
    assert [event.offset for event in handler.events] == [0, 2, 3, 4, 5, 6]
    assert [(header.name, header.value) for header in handler.events[3].headers][:4] == [
        ("a", None), ("b", b""), ("a", b"\xff\xfe"), ("", b"1"),
    ]  # fmt: skip
    assert len(handler.events[4].headers) == 1000
    assert handler.events[5].source_system is None
    dropped = [
        record.getMessage() for record in caplog.records if "invalid record" in record.getMessage()
    ]
    assert len(dropped) == 1
    assert "offset=1" in dropped[0]
    assert f"topic={unique}" in dropped[0]


async def test_keys(broker: Broker, unique: str, caplog: pytest.LogCaptureFixture) -> None:
    broker.topic(unique)
    keys = [None, b"\xff\xfe", b"a\0b", "😀".encode() * 16384, "😀".encode() * 8192, b"", b"good"]
    handler = await consume(broker, unique, [Raw(key) for key in keys])
    assert [event.key for event in handler.events] == ["a\0b", "😀" * 8192, "", "good"]
    dropped = [
        record.getMessage() for record in caplog.records if "invalid record" in record.getMessage()
    ]
    assert len(dropped) == 3
    for offset, line in zip((0, 1, 3), dropped, strict=True):
        assert f"offset={offset}" in line


@pytest.mark.parametrize("append", [False, True])
async def test_timestamps(broker: Broker, unique: str, append: bool) -> None:
    more = {"message_timestamp_type": "LogAppendTime"} if append else {}
    broker.topic(unique, message_timestamp_after_max_ms=str(2**63 - 1), **more)
    stamps = [-1, 0, 1, 1_700_000_000_123, 253402300799999, 253402300800000]
    before = datetime.now(timezone.utc)
    handler = await consume(broker, unique, [Raw(timestamp=stamp) for stamp in stamps])
    found = [event.timestamp for event in handler.events]
    assert all(stamp.utcoffset() == timedelta(0) for stamp in found)
    near = timedelta(seconds=30)
    if append:
        assert all(abs(stamp - before) < near for stamp in found)
        return
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert abs(found[0] - before) < near
    latest = datetime.max.replace(microsecond=999000, tzinfo=timezone.utc)
    exact = [epoch + timedelta(milliseconds=stamp) for stamp in stamps[1:5]]
    assert found[1:] == [*exact, latest]
    assert exact[-1] == latest


async def test_names_of_topics(broker: Broker, unique: str) -> None:
    """Bad names are refused at once and by name; patterns work."""
    good, late = f"{unique}.b_c", f"{unique}.late"
    broker.topic(good)
    bad = ["", ".", "..", "a b", "日本", "t\u043epic", "a" * 250, "a\0b"]
    options = options_of(broker, f"g-{unique}", good) | {"shutdown_timeout": 1.0}
    async with await ProsodyClient.create(**options) as client:
        for name in bad:
            with pytest.raises((ValueError, RuntimeError), match="topic") as refusal:
                await asyncio.wait_for(client.send(name, "k", 1), 1)
            assert name == "" or name[:3] in str(refusal.value) or "NUL" in str(refusal.value)
        await client.send(good, "k", "last")
    for name in [*bad, "^(", "^ev[", f"{unique}-absent"]:
        client = None
        try:
            with pytest.raises((ValueError, RuntimeError), match="topic"):  # noqa: PT012
                client = await ProsodyClient.create(**options | {"subscribed_topics": [name]})
                await asyncio.wait_for(client.subscribe(Recorder()), 12)
        finally:
            if client:
                await client.shutdown()
    handler = Recorder()
    pattern = options | {"subscribed_topics": f"^{unique}[.].*"}
    async with await ProsodyClient.create(**pattern) as client:
        await client.subscribe(handler)
        await asyncio.wait_for(handler.last.wait(), 30)
        broker.topic(late)  # appears while the pattern is subscribed
        handler.last.clear()
        await client.send(late, "k", "last")
        await asyncio.wait_for(handler.last.wait(), 30)
    assert [event.topic for event in handler.events] == [good, late]
