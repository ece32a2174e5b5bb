"""Events come out of packed records, and every attempt gets exactly one outcome."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import sys
from datetime import datetime, timezone
from typing import Any

import fake
import pytest
from conftest import eventually
from rig import PERMANENT, SUCCESS, TRANSIENT, Rig, Script

from prosody import DemandKind, ExciseMessage, Message, PermanentError, native
from prosody.handler import check
from prosody.queue import SIZE


async def test_message_fields() -> None:
    handler = Script()
    rig = Rig(handler)
    rig.put(
        fake.message(
            5,
            b' {"a" : 1}',
            key="k\0é",
            source=b"billing",
            trace=b"00-trace",
            state=b"",
            flags=2,
            headers=[(b"a", b"1"), (b"a", None), (b"\xff", b""), (b"", b"\0")],
        ),
        fake.message(6, None, key="", headers=[(b"x", b"y")]),
    )
    await rig.outcomes(2)
    message, excise = handler.events
    for twin in (copy.copy(message), copy.deepcopy(message)):  # nobody has read them
        assert twin == message
        assert twin.headers[2:] == (("\udcff", b""), ("", b"\0"))
    assert message == Message("topic", 2, 7, message.timestamp, "k\0é", {"a": 1})
    assert type(message) is Message
    assert message.timestamp == datetime(2023, 11, 14, 22, 13, 20, 123_000, timezone.utc)
    assert message.timestamp.tzinfo is timezone.utc
    assert message.source_system == "billing"
    assert message.response_requested
    assert message.headers == (("a", b"1"), ("a", None), ("\udcff", b""), ("", b"\0"))
    assert message.headers[0].name == "a"
    assert type(excise) is ExciseMessage
    assert excise == ExciseMessage("topic", 2, 7, excise.timestamp, "")
    assert excise.headers == (("x", b"y"),)
    assert excise.source_system is None
    assert not hasattr(excise, "payload")
    assert message.headers is message.headers
    with pytest.raises(AttributeError, match="'Message' object has no attribute 'header'"):
        message.header  # noqa: B018
    assert Message("topic", 2, 7, message.timestamp, "k", 1).headers == ()
    for event in (message, excise):
        with pytest.raises(dataclasses.FrozenInstanceError):
            event.key = "other"
        assert dataclasses.replace(event, key="other").key == "other"
        assert repr(event).startswith(type(event).__name__)


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        (0, "1970-01-01T00:00:00.000+00:00"),
        (1, "1970-01-01T00:00:00.001+00:00"),
        (-1, "1969-12-31T23:59:59.999+00:00"),
        (1_796_108_518_999, "2026-12-01T07:01:58.999+00:00"),
        (253402300799999, "9999-12-31T23:59:59.999+00:00"),
        (253402300800000, "9999-12-31T23:59:59.999+00:00"),
        (2**63 - 1, "9999-12-31T23:59:59.999+00:00"),
        (-(2**63), "0001-01-01T00:00:00.000+00:00"),
    ],
)
async def test_timestamps(milliseconds: int, expected: str) -> None:
    handler = Script()
    rig = Rig(handler)
    rig.put(fake.message(1, timestamp=milliseconds))
    await rig.outcomes(1)
    assert handler.events[0].timestamp.isoformat(timespec="milliseconds") == expected


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "result", "text"),
    [
        (ValueError("x"), TRANSIENT, b"ValueError: x"),
        (PermanentError("x"), PERMANENT, b"PermanentError: x"),
        (asyncio.CancelledError("x"), TRANSIENT, b"CancelledError: x"),
        (GeneratorExit(), TRANSIENT, b"GeneratorExit"),
        (StopIteration(), TRANSIENT, b"RuntimeError: coroutine raised StopIteration"),
        (BaseException("x"), TRANSIENT, b"BaseException: x"),
        (Mute(), TRANSIENT, b"Mute: <the exception has no text>"),
    ],
)
@pytest.mark.parametrize("late", [False, True])
async def test_every_exception_is_a_failure(
    error: BaseException, result: int, text: bytes, late: bool
) -> None:
    async def work(context: Any, message: Any) -> None:
        if late:
            await asyncio.sleep(0)
        if message.key == "bad":
            raise error

    rig = Rig(Script(work))
    rig.put(fake.message(1, key="bad"), fake.message(2))
    assert await rig.outcomes(2) == [(1, result, None, text), (2, SUCCESS, None, None)]
    assert not rig.subscription.active


@pytest.mark.parametrize("error", [SystemExit(7), KeyboardInterrupt()])
@pytest.mark.parametrize("late", [False, True])
def test_exits_end_the_loop_after_the_outcome(error: BaseException, late: bool) -> None:
    """The record fails, the loop ends, and on going on the rest of the batch is handled."""
    loop = asyncio.new_event_loop()
    rigs = []

    async def work(context: Any, message: Any) -> None:
        if late:
            await asyncio.sleep(0)
        if message.key == "bad":
            raise error

    async def start() -> None:
        rig = Rig(Script(work))
        rigs.append(rig)
        rig.put(fake.message(1), fake.message(2, key="bad"), fake.message(3))
        await asyncio.sleep(60)

    with pytest.raises(type(error)):
        loop.run_until_complete(start())
    outcomes = rigs[0].library.outcomes
    assert [outcome[:2] for outcome in outcomes if outcome[0] == 2] == [(2, TRANSIENT)]
    loop.run_until_complete(rigs[0].outcomes(3))
    assert sorted(outcome[:2] for outcome in outcomes) == [(1, 0), (2, 1), (3, 0)]
    loop.run_until_complete(loop.shutdown_asyncgens())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


async def test_a_batch_goes_on_after_an_exception() -> None:
    """Whatever one record raises in the reader, those behind it are handled."""
    rig = Rig(Script())

    def refuse(text: str) -> None:
        raise RuntimeError(text)

    rig.process.poison = refuse
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    rig.put(fake.message(1), fake.fatal("x"), fake.message(2), fake.fatal("y"), fake.message(3))
    rig.put(fake.message(4))
    assert [outcome[0] for outcome in await rig.outcomes(4)] == [1, 2, 3, 4]


async def test_wrong_handler_signature_is_a_failure() -> None:
    class Wrong(Script):
        async def on_message(self) -> None:  # type: ignore[override]
            pass

    rig = Rig(Wrong())
    rig.put(fake.message(1))
    ((_, result, _, text),) = await rig.outcomes(1)
    assert result == TRANSIENT
    assert b"TypeError" in (text or b"")


async def test_plain_functions_are_handlers_too() -> None:
    class Plain(Script):
        def on_message(self, context: Any, message: Any) -> Any:  # type: ignore[override]
            self.events.append(message)
            return asyncio.sleep(0) if message.key == "later" else None

    handler = Plain()
    rig = Rig(handler)
    rig.put(fake.message(1), fake.message(2, key="later"))
    assert [outcome[1] for outcome in await rig.outcomes(2)] == [SUCCESS, SUCCESS]


async def test_unreadable_payload_is_permanent(caplog: pytest.LogCaptureFixture) -> None:
    handler = Script()
    rig = Rig(handler)
    rig.put(
        fake.message(1, b"[" * 200_000 + b"]" * 200_000),
        fake.message(2, b"9" * 5000),
        fake.message(3, b'"\\ud800"'),
    )
    outcomes = await rig.outcomes(3)
    assert [outcome[:2] for outcome in outcomes] == [(1, 2), (2, 2), (3, 0)]
    assert [event.payload for event in handler.events] == ["\ud800"]
    assert len([r for r in caplog.records if "cannot be read" in r.getMessage()]) == 2


async def test_cancel_reaches_the_task_and_the_context() -> None:
    seen: list[Any] = []

    async def work(context: Any, message: Any) -> None:
        assert not context.should_cancel()
        waiter = asyncio.ensure_future(context.on_cancel())
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            await asyncio.wait_for(waiter, 10)
            seen.append((str(error), context.should_cancel()))
            if message.key == "bad":
                raise

    rig = Rig(Script(work))
    rig.put(fake.message(1, key="bad"), fake.message(2))
    await eventually(lambda: len(rig.subscription.active) == 2, "two attempts")
    await asyncio.sleep(0)
    rig.put(fake.cancel(1, 1), fake.cancel(2, 3), fake.cancel(99, 1))
    outcomes = await rig.outcomes(2)
    assert [outcome[:2] for outcome in outcomes] == [(1, TRANSIENT), (2, SUCCESS)]
    assert sorted(seen) == [
        ("the consumer is shutting down", True),
        ("the handler has exceeded its timeout", True),
    ]


async def test_cancel_before_the_first_step_still_gives_an_outcome() -> None:
    async def work(context: Any, message: Any) -> None:
        await asyncio.sleep(60)

    rig = Rig(Script(work))
    rig.put(fake.message(1), fake.cancel(1, 2))
    assert [outcome[:2] for outcome in await rig.outcomes(1)] == [(1, TRANSIENT)]


async def test_foreign_cancel_before_the_first_step_still_gives_an_outcome() -> None:
    async def work(context: Any, message: Any) -> None:
        await asyncio.sleep(60)

    rig = Rig(Script(work))
    before = asyncio.all_tasks()
    rig.put(fake.message(1))
    rig.subscription._ready()
    for task in asyncio.all_tasks() - before:
        task.cancel()
    assert [outcome[:2] for outcome in await rig.outcomes(1)] == [(1, TRANSIENT)]


async def test_context_is_over_after_its_attempt() -> None:
    kept: list[Any] = []

    async def work(context: Any, message: Any) -> None:
        kept.extend([context, context.on_cancel(), context.demand])

    rig = Rig(Script(work))
    rig.put(fake.message(1, flags=1, retry=3))
    await rig.outcomes(1)
    context, waiter, demand = kept
    await asyncio.wait_for(waiter, 60)
    assert context.should_cancel() is True
    await asyncio.create_task(context.on_cancel())
    assert (demand.kind, demand.retry) == (DemandKind.FAILURE, 3)
    assert demand.kind == "failure"


async def test_dropped_waiters_do_not_pile_up() -> None:
    async def work(context: Any, message: Any) -> None:
        for _ in range(100):
            await asyncio.wait({asyncio.ensure_future(context.on_cancel())}, timeout=0)
        for _ in range(100):
            context.on_cancel().future.cancel()
        kept.append(len(context._waiters))

    kept: list[int] = []
    rig = Rig(Script(work))
    rig.put(fake.message(1))
    await rig.outcomes(1)
    assert kept[0] <= 101


async def test_response_goes_to_those_who_asked() -> None:
    async def work(context: Any, message: Any) -> Any:
        return object() if message.key == "odd" else {"answer": message.key}

    rig = Rig(Script(work))
    rig.put(
        fake.message(1, flags=2, key="a"),
        fake.message(2, flags=2, key="odd"),
        fake.message(3, key="odd"),
    )
    first, second, third = await rig.outcomes(3)
    assert first == (1, SUCCESS, b'{"answer":"a"}', None)
    assert second[1] == PERMANENT
    assert third == (3, SUCCESS, None, None)


async def test_large_and_many_records() -> None:
    handler = Script()
    rig = Rig(handler)
    large = b'"' + b"x" * (3 * SIZE) + b'"'
    rig.put(
        *(fake.message(n) for n in range(1, 3001)), fake.message(3001, large), fake.message(3002)
    )
    outcomes = await rig.outcomes(3002)
    assert [outcome[0] for outcome in outcomes] == list(range(1, 3003))
    assert len(handler.events[3000].payload) == 3 * SIZE
    assert rig.subscription._capacity == SIZE


async def test_reader_leaves_time_for_others() -> None:
    """A flood of records does not keep a ticker from running."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while len(rig.library.outcomes) < 20_000:
            ticks += 1
            await asyncio.sleep(0)

    rig = Rig(Script())
    rig.put(*(fake.message(n, b'"' + b"x" * 200 + b'"') for n in range(20_000)))
    await tick()
    assert ticks > 15


async def test_lost_queue_stops_reading() -> None:
    """After a fault of the library, say: the reader goes away, and calls that are open fail."""
    rig = Rig(Script())
    rig.put(fake.message(1))
    call = rig.port.begin("x", rig.library.call, "handle")
    rig.library.status = native.ERR_POISONED
    await eventually(lambda: rig.subscription.closed, "the end of the subscription")
    assert rig.process.poisoned
    rig.library.put(rig.port, fake.completion(1, 0))
    with pytest.raises(RuntimeError):
        await call
    assert rig.port.closed


def test_end_of_the_loop_fails_what_is_open() -> None:
    """asyncio.run ends: attempts are cancelled, the queue goes, the client is unsubscribed."""

    async def work(context: Any, message: Any) -> None:
        await asyncio.sleep(60)

    async def main() -> Rig:
        rig = Rig(Script(work))
        rig.put(fake.message(1))
        await eventually(lambda: rig.subscription.active, "an attempt")
        return rig

    rig = asyncio.run(main())
    assert [outcome[:2] for outcome in rig.library.outcomes] == [(1, TRANSIENT)]
    assert rig.process.left == ["client"]
    assert rig.subscription.closed
    assert rig.port.closed
    assert not rig.library.queues


async def test_task_factory_is_respected() -> None:
    made: list[Any] = []

    def factory(loop: Any, work: Any, **options: Any) -> Any:
        made.append(work)
        return asyncio.Task(work, loop=loop, **options)

    rig = Rig(Script())
    asyncio.get_running_loop().set_task_factory(factory)
    try:
        rig.put(fake.message(1))
        await rig.outcomes(1)
    finally:
        asyncio.get_running_loop().set_task_factory(None)
    assert made


@pytest.mark.parametrize("wrong", [None, object(), Script, lambda *_: None])
def test_check_refuses(wrong: Any) -> None:
    with pytest.raises(TypeError, match="handler must be a subclass of EventHandler"):
        check(wrong)


@pytest.mark.parametrize("method", ["on_message", "on_excise", "on_timer"])
def test_check_names_the_method(method: str) -> None:
    with pytest.raises(TypeError, match=f"handler.{method} must be callable"):
        check(type("Broken", (Script,), {method: "no function"})())


if sys.version_info >= (3, 12):  # since then tasks start at once

    async def test_attempts_start_at_once() -> None:
        current: list[Any] = []

        async def work(context: Any, message: Any) -> None:
            current.append(asyncio.current_task())

        rig = Rig(Script(work))
        rig.put(fake.message(1))
        rig.subscription._ready()
        assert isinstance(current[0], asyncio.Task)
        assert not rig.subscription.active
