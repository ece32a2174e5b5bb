"""Timers: times become seconds, calls of a handler, records that come due."""

from __future__ import annotations

import asyncio
import struct
import zoneinfo
from ctypes import c_int64
from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Any

import fake
import pytest
from rig import PERMANENT, SUCCESS, TRANSIENT, Rig, Script

from prosody import Context, DemandKind, PermanentError, Timer, native, timers

UTC = timezone.utc
NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
SECOND = 1906545600


class Nowhere(tzinfo):
    def utcoffset(self, when: datetime | None) -> None:
        return None


class Calls:
    """The timer functions of the library, with the answers that a test gives."""

    def __init__(self, rig: Rig) -> None:
        self.status = native.OK
        self.list: list[int] = []
        self.made: list[tuple[Any, ...]] = []
        library: Any = rig.library
        for name in ("schedule", "unschedule", "clear"):
            setattr(library, f"timer_{name}", self._change(name))
        library.timer_list = self._list

    def _change(self, name: str) -> Any:
        def call(token: int, queue: Any, tag: int, *rest: Any) -> int:
            self.made.append((name, token, *rest[:-1]))
            self.tag = tag
            return self.status

        return call

    def _list(
        self, token: int, queue: Any, tag: int, out: Any, room: int, count: Any, error: Any
    ) -> int:
        self.made.append(("list", token))
        self.tag = tag
        count._obj.value = len(self.list)
        if self.status == native.OK and len(self.list) > room:
            return native.SHORT
        if self.status == native.OK:
            (c_int64 * room).from_buffer(out)[: len(self.list)] = self.list
        return self.status


async def within(work: Any) -> tuple[Rig, Calls]:
    """Runs a handler for one message; what it raises fails the test."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def handle(context: Context, message: Any) -> None:
        try:
            await work(context, calls, rig)
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    rig = Rig(Script(handle))
    calls = Calls(rig)
    rig.put(fake.message(5))
    await done
    return rig, calls


@pytest.mark.parametrize(
    ("time", "second"),
    [
        (NOON, SECOND),
        (NOON + timedelta(microseconds=499_999), SECOND),
        (NOON + timedelta(microseconds=500_000), SECOND + 1),
        (NOON + timedelta(microseconds=-500_000), SECOND),
        (NOON + timedelta(microseconds=-500_001), SECOND - 1),
        (NOON + timedelta(seconds=2, microseconds=400_000), SECOND + 2),
        (NOON + timedelta(seconds=3, microseconds=500_000), SECOND + 4),
        (datetime(2030, 6, 1, 17, 45, tzinfo=timezone(timedelta(hours=5, minutes=45))), SECOND),
        (datetime(2030, 6, 1, 8, tzinfo=zoneinfo.ZoneInfo("America/New_York")), SECOND),
        (datetime(2030, 6, 1, 12, tzinfo=timezone(timedelta(0), "Z")), SECOND),
        # In the gap of a change to summer time, and in the repeated hour.
        (datetime(2026, 3, 8, 2, 30, tzinfo=zoneinfo.ZoneInfo("America/New_York")), 1772955000),
        (datetime(2026, 11, 1, 1, 30, tzinfo=zoneinfo.ZoneInfo("America/New_York")), 1793511000),
        (
            datetime(2026, 11, 1, 1, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("America/New_York")),
            1793514600,
        ),
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC), 0),
        (datetime(1969, 12, 31, 23, 59, 59, 499_999, tzinfo=UTC), -1),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), -62135647200),
        (datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))), 253402351200),
    ],
)
def test_seconds(time: datetime, second: int) -> None:
    assert timers.second(time) == second


@pytest.mark.parametrize(
    "time",
    [
        datetime(2030, 6, 1, 12),
        datetime(2030, 6, 1, 12, tzinfo=Nowhere()),
        SECOND,
        float(SECOND),
        "2030-06-01",
        None,
        date(2030, 6, 1),
        timedelta(seconds=1),
    ],
)
async def test_what_is_no_moment_is_refused(time: Any) -> None:
    async def work(context: Context, calls: Calls, rig: Rig) -> None:
        for method in (context.schedule, context.unschedule, context.clear_and_schedule):
            for immediate in (False, True):
                with pytest.raises(TypeError, match="expected a datetime"):
                    await method(time, immediate=immediate)
        assert not calls.made

    await within(work)


async def test_calls_and_their_flags() -> None:
    async def work(context: Context, calls: Calls, rig: Rig) -> None:
        await context.schedule(NOON)
        await context.clear_and_schedule(NOON)
        await asyncio.create_task(context.unschedule(NOON))
        await asyncio.gather(context.clear_scheduled(), asyncio.wait_for(context.scheduled(), 60))
        calls.status = native.PENDING
        pending = [
            context.schedule(NOON, immediate=True),
            context.clear_and_schedule(NOON, immediate=True),
            context.unschedule(NOON, immediate=True),
            context.clear_scheduled(immediate=True),
        ]
        assert not any(call.future.done() for call in pending)
        for tag in range(calls.tag - 3, calls.tag + 1):
            rig.library.put(rig.port, fake.completion(tag, native.OK))
        await asyncio.gather(*pending)

    _, calls = await within(work)
    plain = [
        ("schedule", 5, SECOND, 0),
        ("schedule", 5, SECOND, 1),
        ("unschedule", 5, SECOND, 0),
        ("clear", 5, 0),
        ("list", 5),
    ]
    at_once = [
        ("schedule", 5, SECOND, 2),
        ("schedule", 5, SECOND, 3),
        ("unschedule", 5, SECOND, 2),
        ("clear", 5, 2),
    ]
    assert calls.made == plain + at_once


@pytest.mark.parametrize("count", [0, 1, 64, 65, 1000])
@pytest.mark.parametrize("reads", [False, True])
async def test_lists(count: int, reads: bool) -> None:
    async def work(context: Context, calls: Calls, rig: Rig) -> None:
        calls.list = [SECOND + number for number in range(count)]
        if reads:
            calls.status = native.PENDING
        call = context.scheduled()
        if reads:
            data = struct.pack(f"={count}q", *calls.list)
            rig.library.put(rig.port, fake.completion(calls.tag, native.OK, data=data, value=count))
        times = await call
        assert times == [NOON + timedelta(seconds=number) for number in range(count)]
        assert all(time.tzinfo is UTC for time in times)

    await within(work)


async def test_failures_and_the_end_of_the_attempt() -> None:
    kept: list[Context] = []

    async def work(context: Context, calls: Calls, rig: Rig) -> None:
        kept.append(context)
        calls.status = native.ERR_SETTLED
        for call in (context.schedule(NOON), context.scheduled(), context.clear_scheduled()):
            with pytest.raises(RuntimeError):
                await call
        calls.status = native.PENDING
        call = context.schedule(NOON, immediate=True)
        rig.library.put(rig.port, fake.completion(calls.tag, 302, "Failed to schedule timer: x"))
        with pytest.raises(RuntimeError, match="Failed to schedule timer: x"):
            await call

    rig, calls = await within(work)
    await rig.outcomes(1)
    (context,), made = kept, len(calls.made)
    for call in (
        context.schedule(NOON),
        context.clear_and_schedule(NOON, immediate=True),
        context.unschedule(NOON),
        context.clear_scheduled(),
        context.scheduled(),
    ):
        with pytest.raises(RuntimeError, match=r"context is no longer valid .* been processed"):
            await call
    assert len(calls.made) == made


async def test_timer_records_reach_the_handler(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[Any, Timer]] = []

    class Timed(Script):
        async def on_timer(self, context: Context, timer: Timer) -> None:
            seen.append((context.demand, timer))
            if timer.key == "bad":
                raise PermanentError("no")
            if timer.key == "late":
                await asyncio.sleep(0)
                raise ValueError("later")

    rig = Rig(Timed())
    rig.put(
        fake.timer(7, SECOND, key="k\0é", trace=b"00-a", state=b""),
        fake.timer(8, 2**32 - 1, key="bad", flags=1, retry=3),
        fake.timer(9, 0, key="late"),
        fake.message(10),
    )
    outcomes = await rig.outcomes(4)
    assert [outcome[:2] for outcome in outcomes] == [
        (7, SUCCESS),
        (8, PERMANENT),
        (9, TRANSIENT),
        (10, SUCCESS),
    ]
    assert [timer for _, timer in seen] == [
        Timer("k\0é", NOON),
        Timer("bad", datetime(2106, 2, 7, 6, 28, 15, tzinfo=UTC)),
        Timer("late", datetime(1970, 1, 1, tzinfo=UTC)),
    ]
    assert all(timer.time.tzinfo is UTC for _, timer in seen)
    demand = seen[1][0]
    assert (demand.kind, demand.retry) == (DemandKind.FAILURE, 3)
    lines = [line for line in caplog.records if "timer handling failed" in line.getMessage()]
    assert {line.__dict__["key"] for line in lines} == {"bad", "late"}


async def test_a_timer_can_be_cancelled() -> None:
    started = asyncio.Event()

    class Timed(Script):
        async def on_timer(self, context: Context, timer: Timer) -> None:
            started.set()
            await context.on_cancel()
            assert context.should_cancel()
            await asyncio.sleep(60)

    rig = Rig(Timed())
    rig.put(fake.timer(7, SECOND))
    await started.wait()
    rig.put(fake.cancel(7, 2))
    ((token, result, _, text),) = await rig.outcomes(1)
    assert (token, result) == (7, TRANSIENT)
    assert text == b"CancelledError: partition has been revoked"
