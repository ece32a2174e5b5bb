"""The whole way through the library, in mock mode: clients, loops, handlers, fates."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import weakref
from typing import Any

import pytest
from conftest import eventually
from recorder import Recorder

from prosody import (
    AdminClient,
    Options,
    PermanentError,
    ProsodyClient,
    TransientError,
    runtime,
)
from prosody import (
    options as option_module,
)


async def test_round_trip_with_headers(options: dict[str, Any], unique: str) -> None:
    handler = Recorder()
    async with await ProsodyClient.create(**options) as client:
        await client.subscribe(handler)
        odd = [("h", b"\x00\xff"), ("h", None), ("é", ""), ("", b"")]
        await client.send(unique, "k\0", {"a": [1, 2.0, "\0"]}, headers=odd)
        await client.send(unique, "k\0", None, headers={"a": b"b"})
        await client.excise(unique, "k\0", headers=[("x", b"y")])
        await eventually(lambda: len(handler.events) == 3, "three events")
    assert handler.payloads == [{"a": [1, 2.0, "\0"]}, None, "excised"]
    own = [[h for h in event.headers if h.name != "source-system"] for event in handler.events]
    assert own[0] == [("h", b"\x00\xff"), ("h", None), ("é", b""), ("", b"")]
    assert own[1:] == [[("a", b"b")], [("x", b"y")]]
    assert {event.key for event in handler.events} == {"k\0"}
    assert await client.consumer_state() == "shut_down"


@pytest.mark.parametrize(
    "arguments",
    [
        (7, "k", 1),
        ("t", 5, 1),
        ("t", b"k", 1),
        ("t", None, 1),
        ("t", "k", b"bytes"),
        ("t", "k", {1: 2}),
    ],
)
async def test_wrong_arguments_raise_at_the_call(
    options: dict[str, Any], arguments: tuple[Any, ...]
) -> None:
    async with await ProsodyClient.create(**options) as client:
        with pytest.raises(TypeError):
            client.send(*arguments)
        if len(arguments) == 3 and arguments[2] == 1:
            with pytest.raises(TypeError):
                client.excise(*arguments[:2])


@pytest.mark.parametrize(
    "headers",
    [
        [(1, b"")],
        [("a", 1)],
        [("a", "\ud800")],
        [("\udcff", b"")],
        5,
        ["ab"],
        b"ab",
        [None],
        [("a", b"", b"")],
        [("a\0", b"")],
    ],
)
async def test_wrong_headers_are_refused(options: dict[str, Any], headers: Any) -> None:
    async with await ProsodyClient.create(**options) as client:
        with pytest.raises((TypeError, ValueError), match=r"header|surrogates|iterable"):
            await client.send("t", "k", 1, headers=headers)


async def test_options_are_those_of_the_library() -> None:
    """The typed options are exactly those that can be set."""
    table = option_module.table(runtime.current().library)
    assert set(Options.__annotations__) - {"kafka"} == {
        name for name in table if not name.startswith("topic_")
    }


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"max_concurency": 5}, TypeError, "did you mean 'max_concurrency'"),
        ({"group_id": 7}, TypeError, "group_id"),
        ({"mode": "low_latency"}, ValueError, "mode"),
        ({"state_read_cache": True}, ValueError, "state_read_cache"),
        ({"bootstrap_servers": []}, (RuntimeError, ValueError), "bootstrap"),
        ({"kafka": {"bootstrap.servers": "x"}}, (RuntimeError, ValueError), "bootstrap"),
        ({"kafka": {1: 2}}, TypeError, "kafka"),
        ({"source_system": "", "group_id": None}, (RuntimeError, ValueError), "source_system"),
    ],
)
async def test_wrong_options(options: dict[str, Any], more: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        await ProsodyClient.create(**(options | more))


async def test_kafka_properties_pass(options: dict[str, Any]) -> None:
    properties = {"client.id": "x", "socket.keepalive.enable": True, "linger.ms": 1}
    client = await ProsodyClient.create(**options, kafka=properties)
    await client.shutdown()
    client = await ProsodyClient.create(**options, **{"kafka.client.id": "x"})
    await client.shutdown()


async def test_direct_construction_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Use await ProsodyClient\.create"):
        ProsodyClient()


async def test_dropped_results(
    options: dict[str, Any], unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    """subscribe and send without await take effect; a dropped failure is logged, once."""
    handler = Recorder()
    client = await ProsodyClient.create(**options)
    client.subscribe(handler)
    client.send(unique, "k", 1)
    await eventually(lambda: handler.events, "the event")
    client.subscribe(handler)

    def texts() -> list[str]:
        return [r.getMessage() for r in caplog.records if "not awaited" in r.getMessage()]

    await eventually(texts, "the failure in the log")
    await client.consumer_state()
    assert len(texts()) == 1
    assert texts()[0].startswith("subscribe failed")
    assert not [r for r in caplog.records if r.name == "asyncio"]
    await client.shutdown()


async def test_shutdown_from_inside_a_handler(options: dict[str, Any], unique: str) -> None:
    """It ends within the shutdown's own limit, for unsubscribe as well."""
    for method in ("shutdown", "unsubscribe"):
        client = await ProsodyClient.create(**options | {"shutdown_timeout": 1.0})
        ended: list[float] = []

        async def work(
            context: Any, message: Any, client: Any = client, method: str = method
        ) -> None:
            try:
                await getattr(client, method)()
            finally:
                ended.append(time.monotonic())  # noqa: B023

        await client.subscribe(Recorder(work))
        await client.send(unique, "k", method)
        began = time.monotonic()
        await eventually(lambda: ended, "the end of the handler")  # noqa: B023
        await client.shutdown()
        assert time.monotonic() - began < 20


async def test_handlers_are_released(options: dict[str, Any], unique: str) -> None:
    """A temporary handler lives as long as its subscription, and no longer."""
    seen: list[Any] = []

    async def work(context: Any, message: Any) -> None:
        seen.append(message.payload)

    client = await ProsodyClient.create(**options)
    for end in (client.unsubscribe, client.shutdown):
        handler = Recorder(work)
        watcher = weakref.ref(handler)
        await client.subscribe(handler)
        del handler
        gc.collect()
        await client.send(unique, "k", 1)
        await eventually(lambda: seen, "the event")
        seen.clear()
        await end()
        await asyncio.sleep(0)
        gc.collect()
        assert watcher() is None
    assert not runtime.current().port().subscriptions


async def test_refused_subscribe_leaves_nothing(options: dict[str, Any]) -> None:
    client = await ProsodyClient.create(**options)
    await client.subscribe(Recorder())
    port = runtime.current().port()
    for _ in range(5):
        with pytest.raises(RuntimeError):
            await client.subscribe(Recorder())
    await asyncio.sleep(0)
    assert len(port.subscriptions) == 1
    await client.shutdown()
    assert not port.pending


async def test_two_clients_on_one_loop_keep_apart(options: dict[str, Any], unique: str) -> None:
    """Each handler gets the records of its own client only."""
    clients, handlers = [], []
    for name in ("one", "two"):
        topic, handler = f"{unique}-{name}", Recorder()
        more = {"subscribed_topics": topic, "group_id": topic}
        client = await ProsodyClient.create(**options | more)
        await client.subscribe(handler)
        clients.append(client)
        handlers.append(handler)
        await client.send(topic, "k", name)
    await eventually(lambda: all(h.events for h in handlers), "both events")
    assert [h.payloads for h in handlers] == [["one"], ["two"]]
    await asyncio.gather(*(client.shutdown() for client in clients))


async def test_failures_of_every_class(options: dict[str, Any], unique: str) -> None:
    """Each is tried again; a permanent one is not."""
    errors: list[Any] = [
        ValueError(), TransientError("t"), asyncio.CancelledError(), GeneratorExit(),
        StopIteration(), StopAsyncIteration(), asyncio.TimeoutError(), BaseException("b"),
        RecursionError(), MemoryError(), UnicodeDecodeError("x", b"\xff", 0, 1, "y"),
    ]  # fmt: skip
    seen: set[int] = set()

    async def work(context: Any, message: Any) -> None:
        index = message.payload
        if index < 0:
            raise PermanentError("never")
        if index not in seen:
            seen.add(index)
            raise errors[index]

    handler = Recorder(work)
    more = {"defer_enabled": False, "max_retry_delay": 0.05}
    async with await ProsodyClient.create(**options, **more) as client:
        await client.subscribe(handler)
        for index in range(-1, len(errors)):
            await client.send(unique, f"key-{index}", index)
        await eventually(lambda: len(handler.events) >= 2 * len(errors) + 1, "all retries")
    assert sorted(handler.payloads) == sorted([*range(len(errors))] * 2 + [-1])


async def test_blocking_handler_sees_its_cancellation(options: dict[str, Any], unique: str) -> None:
    """should_cancel answers although the event loop is blocked by the handler."""
    waited: list[float] = []

    async def work(context: Any, message: Any) -> None:
        if not waited:
            began = time.monotonic()
            while not context.should_cancel() and time.monotonic() - began < 20:
                time.sleep(0.01)  # noqa: ASYNC251
            waited.append(time.monotonic() - began)

    async with await ProsodyClient.create(**options | {"timeout": 0.3}) as client:
        await client.subscribe(Recorder(work))
        await client.send(unique, "k", 1)
        await eventually(lambda: waited, "the cancellation")
    assert waited[0] < 20


async def test_cancelled_create_leaves_no_client(options: dict[str, Any]) -> None:
    call = ProsodyClient.create(**options)
    task = asyncio.ensure_future(call)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    port = runtime.current().port()
    await eventually(lambda: not port.pending, "the end of the creation")


async def test_cancelled_send_leaves_nothing(options: dict[str, Any], unique: str) -> None:
    async with await ProsodyClient.create(**options) as client:
        tasks = [asyncio.ensure_future(client.send(unique, "k", n)) for n in range(50)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.send(unique, "k", "after")
        port = runtime.current().port()
        await eventually(lambda: not port.pending, "the end of the sends")


async def test_log_lines_reach_logging(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="prosody")
    async with await ProsodyClient.create(**options) as client:
        await client.subscribe(Recorder())
        await eventually(lambda: caplog.records, "a log line")
    assert all(hasattr(record, "levelno") for record in caplog.records)


async def test_large_payload(options: dict[str, Any], unique: str) -> None:
    handler = Recorder()
    async with await ProsodyClient.create(**options) as client:
        await client.subscribe(handler)
        await client.send(unique, "k", "é" * 400_000)
        await client.send(unique, "k", "small")
        await eventually(lambda: len(handler.events) == 2, "both events")
    assert handler.payloads == ["é" * 400_000, "small"]


async def test_subscribe_and_unsubscribe_often(options: dict[str, Any], unique: str) -> None:
    handler = Recorder()
    async with await ProsodyClient.create(**options) as client:
        for number in range(50):
            await client.subscribe(handler)
            await client.send(unique, f"k{number}", number)
            if number % 2:
                await eventually(lambda n=number: n in handler.payloads, "the event")
            await client.unsubscribe()
        await client.subscribe(handler)
        await eventually(lambda: set(handler.payloads) >= set(range(50)), "all events")


async def test_admin(unique: str) -> None:
    admin = AdminClient(mock=True, bootstrap_servers=unique)
    for wrong, error in (
        ({"name": 5}, TypeError),
        ({"name": "x", "partition_count": 1.5}, TypeError),
        ({"name": "x", "partition_count": -1}, OverflowError),
        ({"name": "x", "replication_factor": 65536}, OverflowError),
        ({"name": "x", "retention": "5s"}, TypeError),
        ({"name": "x", "retention": 0}, ValueError),
    ):
        with pytest.raises(error):
            admin.create_topic(**wrong)  # type: ignore[arg-type]
    await admin.create_topic(unique, partition_count=7, replication_factor=1)
    with pytest.raises(RuntimeError, match=r"(?i)exists"):
        await admin.create_topic(unique)
    await asyncio.create_task(admin.delete_topic(unique))
    with pytest.raises((ValueError, RuntimeError), match="bootstrap"):
        AdminClient()
    with pytest.raises(TypeError, match="unknown option"):
        AdminClient(bootstrap_server="x")  # type: ignore[call-arg]
