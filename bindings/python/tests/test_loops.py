"""Several event loops, loops that end, and clients that are dropped."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest
from conftest import eventually
from recorder import Recorder

from prosody import ProsodyClient, runtime


def drop(held: list[Any]) -> None:
    """Lets go of what only the list still holds."""
    held.clear()
    gc.collect()


def test_one_client_on_many_loops(options: dict[str, Any], unique: str) -> None:
    """16 threads, each with an event loop of its own, share a client whose handler runs on one."""
    handler = Recorder()
    failures: list[BaseException] = []

    async def main() -> None:
        client = await ProsodyClient.create(**options | {"max_concurrency": 8})
        await client.subscribe(handler)

        async def use(number: int) -> None:
            for index in range(50):
                await client.send(unique, f"{number}-{index % 4}", [number, index])
                assert await client.consumer_state() == "running"
            await asyncio.gather(
                *(client.send(unique, f"{number}", [number, n]) for n in range(50))
            )
            await client.assigned_partition_count()

        def thread(number: int) -> None:
            try:
                asyncio.run(use(number))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=thread, args=(number,)) for number in range(16)]
        for one in threads:
            one.start()
        await eventually(lambda: len(handler.events) == 1600, "all events", 40)
        for one in threads:
            await asyncio.to_thread(one.join)
        await client.shutdown()

    asyncio.run(main())
    assert not failures
    sent = sorted([n, i] for n in range(16) for i in [*range(50), *range(50)])
    assert sorted(handler.payloads) == sent


def test_subscriber_shut_down_from_another_loop(options: dict[str, Any], unique: str) -> None:
    handler = Recorder()

    async def main() -> None:
        client = await ProsodyClient.create(**options)
        await client.subscribe(handler)
        await client.send(unique, "k", 1)
        await eventually(lambda: handler.events, "the event")

        async def end() -> None:
            await client.shutdown()

        await asyncio.to_thread(lambda: asyncio.run(end()))
        port = runtime.current().port()
        await eventually(lambda: not port.subscriptions, "the end of the subscription")

    asyncio.run(main())


def test_client_outlives_its_loop(options: dict[str, Any], unique: str) -> None:
    """The subscription ends with its loop; the client goes on in the next one."""
    first, second = Recorder(), Recorder()

    async def begin() -> ProsodyClient:
        client = await ProsodyClient.create(**options)
        await client.subscribe(first)
        await client.send(unique, "k", 1)
        await eventually(lambda: first.events, "the first event")
        return client

    async def go_on(client: ProsodyClient) -> None:
        async def configured() -> bool:
            return await client.consumer_state() == "configured"

        await eventually(configured, "the end of the first subscription")
        await client.subscribe(second)
        await client.send(unique, "k", 2)
        await eventually(lambda: 2 in second.payloads, "the second event")
        await client.shutdown()

    client = asyncio.run(begin())
    asyncio.run(go_on(client))
    assert first.payloads == [1]


def test_loop_closed_by_hand(options: dict[str, Any], unique: str) -> None:
    """Without asyncio.run nobody tells of the end; the next loop notices."""
    loop = asyncio.new_event_loop()

    async def begin() -> ProsodyClient:
        client = await ProsodyClient.create(**options)
        await client.subscribe(Recorder())
        return client

    client = loop.run_until_complete(begin())
    loop.close()

    async def go_on() -> None:
        await client.send(unique, "k", 2)
        assert len(runtime.current()._ports) == 1
        await client.shutdown()

    asyncio.run(go_on())


def test_uvloop(options: dict[str, Any], unique: str) -> None:
    uvloop = pytest.importorskip("uvloop")
    handler = Recorder()

    async def main() -> None:
        async with await ProsodyClient.create(**options) as client:
            await client.subscribe(handler)
            await asyncio.gather(*(client.send(unique, f"k{n}", n) for n in range(100)))
            await eventually(lambda: len(handler.events) == 100, "the events")
            await asyncio.create_task(client.consumer_state())

    for _ in range(2):
        handler.events.clear()
        loop = uvloop.new_event_loop()
        loop.run_until_complete(main())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def test_collected_client_is_shut_down(options: dict[str, Any], unique: str) -> None:
    """It warns, its handler ends in peace, and the group is left."""
    finished: list[Any] = []
    gate = asyncio.Event()

    async def work(context: Any, message: Any) -> None:
        await gate.wait()
        finished.append(message.payload)

    client = await ProsodyClient.create(**options)
    core = client._core
    handler = Recorder(work)
    await client.subscribe(handler)
    await client.send(unique, "k", 1)
    await eventually(lambda: handler.active, "the handler")
    held = [client]
    del client
    with pytest.warns(ResourceWarning, match="shut down"):
        drop(held)
    await asyncio.sleep(0)
    gate.set()
    await eventually(lambda: core.ended, "the shutdown")
    assert finished == [1]
    assert core not in runtime.current().cores
    await eventually(lambda: not core.handle, "the native client to be freed")


def test_client_dropped_with_its_loop(options: dict[str, Any], unique: str) -> None:
    """A client that goes while its loop ends is shut down all the same."""
    cores: list[Any] = []

    async def fail(context: Any, message: Any) -> None:
        raise ValueError("again and again, so that the shutdown takes its time")

    async def main() -> None:
        client = await ProsodyClient.create(**options | {"shutdown_timeout": 2.0})
        cores.append(client._core)
        handler = Recorder(fail)
        await client.subscribe(handler)
        await client.send(unique, "k", 1)
        await eventually(lambda: handler.events, "the event")

    asyncio.run(main())
    gc.collect()
    runtime.current().limbo.wait(20)
    assert cores[0].ended
    assert not cores[0].handle
    assert cores[0] not in runtime.current().cores


async def test_unused_client_is_collected(options: dict[str, Any]) -> None:
    client = await ProsodyClient.create(**options)
    core = client._core
    await asyncio.sleep(0)  # the step that got the client holds its future
    held = [client]
    del client
    with pytest.warns(ResourceWarning, match="shut down"):
        drop(held)

    def ended() -> bool:
        runtime.current().limbo.drain()
        return core.ended

    await eventually(ended, "the shutdown")
