"""Timers the whole way through the library, in mock mode."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from recorder import Recorder

from prosody import Context, DemandKind, PermanentError, ProsodyClient, Timer, mock

UTC = timezone.utc
DAY = timedelta(days=1)


class Timed(Recorder):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.timers: asyncio.Queue[tuple[Timer, Context, float]] = asyncio.Queue()

    async def on_timer(self, context: Context, timer: Timer) -> None:
        self.timers.put_nowait((timer, context, time.time()))
        if timer.key == "fails" and context.demand.retry < 2:
            raise RuntimeError("no")


def soon(seconds: float = 0.0) -> datetime:
    return (datetime.now(UTC) + timedelta(seconds=seconds + 1)).replace(microsecond=0)


async def run(client: ProsodyClient, topic: str, handler: Timed, work: Any, key: str = "k") -> Any:
    """Has the handler run `work(context)` once, and gives its value."""
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def once(context: Context, message: Any) -> None:
        try:
            done.set_result(await work(context))
        except Exception as error:
            done.set_exception(error)

    handler.work = once
    await client.send(topic, key, 1)
    return await done


async def test_a_timer_fires_after_its_second(options: dict[str, Any], unique: str) -> None:
    handler = Timed()
    async with await ProsodyClient.create(**options) as client:
        await client.subscribe(handler)
        due = soon()
        await run(client, unique, handler, lambda context: context.schedule(due), key="k\0é")
        timer, context, when = await handler.timers.get()
        assert timer == Timer("k\0é", due)
        assert due.timestamp() <= when < due.timestamp() + 1
        assert (context.demand.kind, context.demand.retry) == (DemandKind.NORMAL, 0)
        assert await run(client, unique, handler, lambda context: context.scheduled()) == []


async def test_tomorrow_comes_when_the_clock_is_moved(options: dict[str, Any], unique: str) -> None:
    handler, other = Timed(), Timed()
    elsewhere = options | {"bootstrap_servers": f"{unique}-other"}
    async with (
        await ProsodyClient.create(**options) as client,
        await ProsodyClient.create(**elsewhere) as neighbour,
    ):
        await client.subscribe(handler)
        await neighbour.subscribe(other)
        due = soon() + DAY
        for one, its in ((client, handler), (neighbour, other)):
            await run(one, unique, its, lambda context: context.schedule(due))
            await run(one, unique, its, lambda context: context.schedule(due + DAY))
            assert len(await run(one, unique, its, lambda context: context.scheduled())) == 2
        mock.advance(DAY + timedelta(seconds=2), [unique])
        assert (await handler.timers.get())[0].time == due
        mock.advance(DAY.total_seconds(), unique)
        assert (await handler.timers.get())[0].time == due + DAY
        assert other.timers.empty()
        with pytest.raises(ValueError, match="servers"):
            mock.advance(1, "nowhere")
        for wrong in (-1, float("nan"), float("inf"), 10**12, timedelta.max):
            with pytest.raises(ValueError, match=r"time|milliseconds"):
                mock.advance(wrong, unique)
        with pytest.raises(TypeError):
            mock.advance("1", unique)  # type: ignore[arg-type]


async def test_a_failed_timer_comes_again(options: dict[str, Any], unique: str) -> None:
    handler = Timed()
    fast = options | {"retry_base": 0.001, "max_retry_delay": 0.002, "defer_enabled": False}
    async with await ProsodyClient.create(**fast) as client:
        await client.subscribe(handler)
        past = datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC)
        await run(client, unique, handler, lambda context: context.schedule(past), key="fails")
        demands = []
        for _ in range(3):
            timer, context, _ = await handler.timers.get()
            assert timer.time == past
            demands.append((context.demand.kind, context.demand.retry))
        failure = DemandKind.FAILURE
        assert demands == [(DemandKind.NORMAL, 0), (failure, 1), (failure, 2)]


async def test_changes_belong_to_the_attempt(options: dict[str, Any], unique: str) -> None:
    handler = Timed()
    kept, dropped, at_once = (soon() + number * DAY for number in (1, 2, 3))
    async with await ProsodyClient.create(**options) as client:
        await client.subscribe(handler)
        await run(client, unique, handler, lambda context: context.schedule(kept))

        async def fails(context: Context, message: Any) -> None:
            await context.schedule(at_once, immediate=True)
            await context.clear_and_schedule(dropped)
            assert await context.scheduled() == [dropped]
            failed.set()
            raise PermanentError("no")

        failed = asyncio.Event()
        handler.work = fails
        await client.send(unique, "k", 1)
        await failed.wait()
        times = await run(client, unique, handler, lambda context: context.scheduled())
        assert times == [kept, at_once]
        assert await run(client, unique, handler, lambda c: c.scheduled(), key="l") == []


async def test_schedule_is_quick(options: dict[str, Any], unique: str) -> None:
    handler = Timed()

    async def work(context: Context) -> list[float]:
        times, base = [], soon() + DAY
        for number in range(2000):
            began = time.perf_counter()
            await context.schedule(base + timedelta(seconds=number % 50))
            times.append(time.perf_counter() - began)
        return sorted(times)

    async with await ProsodyClient.create(**options) as client:
        await client.subscribe(handler)
        times = await run(client, unique, handler, work)
    assert times[len(times) // 2] < 0.0002
