"""Keyed state of a client in mock mode."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import math
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

import prosody
from prosody import (
    Context,
    Direction,
    EventHandler,
    Message,
    NullValueError,
    PermanentError,
    PermanentStateError,
    ProsodyClient,
    StoreOutcome,
    TransientStateError,
)

VALUE = prosody.value("value", published=True, read_cache=False)
MAP = prosody.map("map", published=True, read_cache=timedelta(milliseconds=1))
SET = prosody.set("set", published=True)
DEQUE = prosody.deque("deque", published=True)
LAST = prosody.message_value("last")
LOG = prosody.message_deque("log")
COLLECTIONS = [VALUE, MAP, SET, DEQUE, LAST, LOG]

Step = Callable[[Context, Message[Any]], Awaitable[Any]]


class Stage(EventHandler[Any, Any]):
    """Runs the step that a test hands over, in the handler of an event."""

    def __init__(self, client: ProsodyClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        self._steps: dict[int, tuple[Step, asyncio.Future[Any]]] = {}

    async def run(self, step: Step, key: str = "key") -> Any:
        number = len(self._steps)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._steps[number] = step, future
        await self.client.send(self.topic, key, number)
        return await future

    async def on_message(self, context: Context, message: Message[Any]) -> None:
        step, future = self._steps[message.payload]
        try:
            result = await step(context, message)
        except BaseException as error:
            future.set_exception(error)
            raise PermanentError("the step failed") from error
        future.set_result(result)

    on_excise = on_message  # type: ignore[assignment]

    async def on_timer(self, context: Context, timer: Any) -> None:
        raise NotImplementedError


@contextlib.asynccontextmanager
async def stage(options: dict[str, Any], **more: Any) -> AsyncIterator[Stage]:
    given = options | {"state_collections": COLLECTIONS, "subsystem": "shop"} | more
    async with await ProsodyClient.create(**given) as client:
        made = Stage(client, options["subscribed_topics"])
        await client.subscribe(made)
        yield made


async def test_values_are_exact(options: dict[str, Any]) -> None:
    samples = [
        0, True, False, 1.0, -0.0, 1e300, 5e-324, 2**64 - 1, -(2**63), "", "\0é\U0001f600",
        [], {}, [None, {"a": None}], {"b": [1.5], "a": 2}, "x" * 3_000_000,
    ]  # fmt: skip

    async def write(context: Context, message: Message[Any]) -> None:
        handle = context.state(VALUE)
        for sample in samples:
            await handle.set(sample)
            assert repr(await handle.get()) == repr(sample)
            assert await context.state(DEQUE).append(sample) is None

    async def read(context: Context, message: Message[Any]) -> Any:
        return [item async for item in context.state(DEQUE)]

    async with stage(options) as at:
        await at.run(write)
        assert repr(await at.run(read)) == repr(samples)


async def test_what_cannot_be_stored_is_refused_at_the_call(options: dict[str, Any]) -> None:
    deep: Any = []
    for _ in range(3000):
        deep = [deep]

    async def step(context: Context, message: Message[Any]) -> Any:
        writes: list[Any] = [
            context.state(VALUE).set,
            lambda value: context.state(MAP).set("a", value),
            context.state(DEQUE).append,
        ]
        for write in writes:
            await write("kept")
            with pytest.raises(NullValueError, match="use clear"):
                write(None)
            for wrong in (math.nan, math.inf, [-math.inf], "\ud800", {"\udfff": 1}, object(), b"x",
                          {1: 2}, 2**64, -(2**63) - 1, [{3}, {4.5: 1}], deep, message):  # fmt: skip
                with pytest.raises(TransientStateError, match="not representable as JSON"):
                    write(wrong)
        for wrong in (5, None, b"x"):
            for call in (
                context.state(MAP).get,
                context.state(MAP).contains,
                context.state(SET).add,
            ):
                with pytest.raises(TypeError, match="str"):
                    call(wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="surrogate"):
            context.state(MAP).get("\ud800")
        with pytest.raises(TypeError, match="one text"):
            context.state(MAP).get_many("abc")
        with pytest.raises(TypeError, match="int"):
            context.state(DEQUE).get("0")  # type: ignore[arg-type]
        assert await context.state(DEQUE).get(2**70) is None
        entries = [item async for item in context.state(MAP).items()]
        return await context.state(VALUE).get(), entries, await context.state(DEQUE).size()

    async with stage(options) as at:
        assert await at.run(step) == ("kept", [("a", "kept")], 1)


async def test_results_are_coroutines_to_asyncio(options: dict[str, Any]) -> None:
    async def step(context: Context, message: Message[Any]) -> None:
        handle = context.state(MAP)
        await handle.set("a", [1])
        result = handle.get("a")
        assert [await result, await result] == [[1], [1]]
        assert await asyncio.create_task(handle.get("a")) == [1]
        assert await asyncio.wait_for(handle.get("b", (2, 3)), 60) == (2, 3)
        assert await asyncio.gather(handle.contains("a"), handle.is_empty(), handle.commit()) == [
            True,
            False,
            StoreOutcome.APPLIED,
        ]
        assert await asyncio.ensure_future(handle.rollback()) is StoreOutcome.NO_OP
        handle.set("b", 2).close()
        assert await handle.get("b") == 2
        with pytest.raises(KeyError):
            handle.get("a").throw(KeyError("k"))
        with pytest.raises(KeyError):
            handle.get("a").throw(KeyError)

    async with stage(options) as at:
        await at.run(step)


async def test_a_scan_serves_each_pull(options: dict[str, Any]) -> None:
    names = [f"{number:04}" for number in range(600)]

    async def fill(context: Context, message: Message[Any]) -> None:
        for name in names:
            await context.state(MAP).set(name, name * 300)

    async def step(context: Context, message: Message[Any]) -> None:
        handle = context.state(MAP)
        keys = handle.keys()
        found = await asyncio.gather(*(keys.__anext__() for _ in range(600)))
        assert sorted(found) == names
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await keys.__anext__()
        items = handle.items(Direction.BACKWARD, before="0001", limit=598)
        assert [pair async for pair in items] == [(n, n * 300) for n in names[:1:-1]]
        async for value in handle.values("backward"):
            assert value == "0599" * 300
            break
        closed = handle.keys()
        await closed.aclose()
        await closed.aclose()
        with pytest.raises(TransientStateError, match="used after it was closed"):
            await closed.__anext__()
        opened = handle.keys()
        assert await opened.__anext__() == "0000"
        await opened.aclose()
        with pytest.raises(TransientStateError, match="used after it was closed"):
            await opened.__anext__()

    async with stage(options) as at:
        await at.run(fill)
        await at.run(step)


@pytest.mark.parametrize(
    ("error", "options_"),
    [
        (TypeError, {"prefix": 5}),
        (TypeError, {"after": b"a"}),
        (TypeError, {"limit": True}),
        (TypeError, {"range": ("a", "b")}),
        (TypeError, {"range": slice(1, None)}),
        (TypeError, {"frm": "a"}),
        (ValueError, {"limit": 0}),
        (ValueError, {"limit": 2**64}),
        (ValueError, {"to": "a", "before": "b"}),
        (ValueError, {"range": slice("a", "b", 2)}),
        (ValueError, {"direction": "up"}),
    ],
)
async def test_wrong_scans(options: dict[str, Any], error: Any, options_: Any) -> None:
    async def step(context: Context, message: Message[Any]) -> None:
        for scan in (context.state(MAP).keys, context.state(SET).members):
            with pytest.raises(error):
                scan(**options_)

    async with stage(options) as at:
        await at.run(step)


async def test_positions(options: dict[str, Any]) -> None:
    async def step(context: Context, message: Message[Any]) -> None:
        line = context.state(DEQUE)
        for number in range(6):
            await line.append(number)
        for query, expected in (
            ({"range": range(1, 3)}, [1, 2]),
            ({"range": slice(4, None, 1)}, [4, 5]),
            ({"from_": 1, "to": 2**64 - 1, "limit": 2}, [1, 2]),
            ({"direction": "backward", "after": 3}, [2, 1, 0]),
        ):
            assert [item async for item in line.values(**query)] == expected  # type: ignore[arg-type]
        for error, wrong in (
            (ValueError, {"from_": -1}),
            (ValueError, {"to": 2**64}),
            (ValueError, {"range": range(0, 9, 2)}),
            (TypeError, {"after": 1.0}),
            (TypeError, {"after": True}),
            (TypeError, {"prefix": "a"}),
        ):
            with pytest.raises(error):
                line.values(**wrong)  # type: ignore[arg-type]

    async with stage(options) as at:
        await at.run(step)


async def test_after_the_attempt(options: dict[str, Any]) -> None:
    kept: dict[str, Any] = {}

    async def step(context: Context, message: Message[Any]) -> None:
        for definition in COLLECTIONS:
            assert context.state(definition) is context.state(definition)  # type: ignore[arg-type]
            kept[definition.name] = context.state(definition)  # type: ignore[arg-type]
        await kept["map"].set("a", 1)
        await kept["map"].set("b", 1)
        kept["scan"] = kept["map"].keys()
        await kept["scan"].__anext__()
        kept["context"] = context
        kept["message"] = message

    async with stage(options) as at:
        await at.run(step)
        await at.run(lambda *_: asyncio.sleep(0))
        over, settled = "terminated context", "settled session"
        for read in (
            kept["value"].get, kept["map"].is_empty, kept["deque"].peek, kept["deque"].size,
            kept["scan"].__anext__, kept["map"].keys().__anext__, kept["last"].get,
            lambda: kept["map"].get("a"), lambda: kept["set"].contains("a"),
            lambda: kept["map"].get_many(["a"]), lambda: kept["set"].contains_many(["a"]),
            lambda: kept["deque"].get(0),
        ):  # fmt: skip
            with pytest.raises(TransientStateError, match=over):
                await read()
        for write in (
            kept["value"].clear, kept["value"].commit, kept["deque"].pop,
            lambda: kept["value"].set(1), lambda: kept["map"].remove("a"),
            lambda: kept["set"].add("a"), lambda: kept["deque"].append(1),
            lambda: kept["last"].set(kept["message"]),
        ):  # fmt: skip
            with pytest.raises(PermanentStateError, match=settled):
                await write()
        assert await kept["value"].rollback() is StoreOutcome.NO_OP
        with pytest.raises(TransientStateError, match=over):
            kept["context"].state(VALUE)

        # The library says the same of a handle whose context does not know yet.
        kept["context"]._over = False
        with pytest.raises(TransientStateError, match=over):
            await kept["value"].get()
        with pytest.raises(PermanentStateError, match=settled):
            await kept["value"].set(1)
        with pytest.raises(TransientStateError):
            await kept["map"].keys().__anext__()
        assert await kept["value"].rollback() is StoreOutcome.NO_OP


async def test_only_registered_collections(options: dict[str, Any]) -> None:
    async def step(context: Context, message: Message[Any]) -> None:
        with pytest.raises(PermanentStateError, match='"nope" is not registered'):
            context.state(prosody.value("nope"))
        for other in (prosody.map("value"), prosody.message_value("value")):
            for _ in range(2):
                with pytest.raises(PermanentStateError, match="identity mismatch"):
                    context.state(other)  # type: ignore[arg-type]
            context.state(VALUE)
        assert context.state(prosody.value("value", ttl=5)) is context.state(VALUE)
        with pytest.raises(TypeError, match="definition"):
            context.state("value")  # type: ignore[call-overload]

    async with stage(options) as at:
        await at.run(step)


async def test_messages(options: dict[str, Any]) -> None:
    async def store(context: Context, message: Message[Any]) -> Message[Any]:
        await context.state(LAST).set(message)
        await context.state(LOG).append(message)
        forged = dataclasses.replace(message, payload="other")
        fields = ("topic", "partition", "offset", "timestamp", "key", "payload")
        rebuilt = Message(*(getattr(message, field) for field in fields))
        for wrong in (forged, rebuilt, "text", None):
            with pytest.raises(TransientStateError):
                context.state(LAST).set(wrong)
        return message

    async def read(context: Context, message: Message[Any]) -> Any:
        last = await context.state(LAST).get()
        assert type(last) is Message
        await context.state(LOG).append(last)
        return last, [item async for item in context.state(LOG).values()]

    async with stage(options) as at:
        original = await at.run(store)
        last, log = await at.run(read)
        assert last == original
        assert log == [original, original]
        assert last.headers == original.headers
        assert last.source_system == original.source_system


async def test_another_loop_is_refused(options: dict[str, Any]) -> None:
    async def step(context: Context, message: Message[Any]) -> None:
        handle, errors = context.state(VALUE), []

        def use() -> None:
            try:
                asyncio.run(_get(handle))
            except RuntimeError as error:
                errors.append(str(error))

        thread = threading.Thread(target=use)
        thread.start()
        await asyncio.to_thread(thread.join)
        assert errors == ["keyed state is used on the event loop of its handler"]

    async with stage(options) as at:
        await at.run(step)


async def _get(handle: Any) -> Any:
    return await handle.get()


async def test_published(options: dict[str, Any]) -> None:
    async def step(context: Context, message: Message[Any]) -> None:
        await context.state(VALUE).set({"n": 1})
        for name in "cab":
            await context.state(MAP).set(name, name)
            await context.state(SET).add(name)
            await context.state(DEQUE).append(name)

    async with stage(options) as at:
        await at.run(step)
        await at.run(lambda *_: asyncio.sleep(0))  # the first one is committed
        client = at.client
        assert await (await client.state(" shop ", VALUE)).get("key") == {"n": 1}
        entries = await client.state("shop", MAP)
        assert await entries.get("key", "a") == "a"
        assert await entries.get("key", "x", 7) == 7
        assert await entries.get_many("key", ["b", "x"]) == ["b", None]
        assert await entries.contains_many("key", ["b", "x"]) == [True, False]
        assert await entries.contains("key", "b")
        assert await entries.is_empty("other")
        assert [pair async for pair in entries.items("key", limit=1)] == [("a", "a")]
        assert [name async for name in entries.keys("key", "backward")] == ["c", "b", "a"]
        assert [value async for value in entries.values("key", prefix="b")] == ["b"]
        members = await client.state("shop", SET)
        assert await members.contains("key", "a")
        assert not await members.is_empty("key")
        assert await members.contains_many("key", []) == []
        assert [name async for name in members.members("key", after="a")] == ["b", "c"]
        line = await client.state("shop", DEQUE)
        assert [await line.size("key"), await line.peek("key"), await line.peekleft("key")] == [
            3,
            "b",
            "c",
        ]
        assert await line.get("key", -2) == "a"
        assert await line.is_empty("other")
        assert [value async for value in line.values("key", range=slice(1, None))] == ["a", "b"]
        async for _ in entries.keys("key"):
            break
        with pytest.raises(TypeError, match="range"):
            entries.keys("key", range=5)  # type: ignore[arg-type]
        with pytest.raises(TransientStateError):
            await (await client.state("nobody", VALUE)).get("key")
        with pytest.raises(PermanentStateError):
            await (await client.state("shop", prosody.value("map", read_cache=False))).get("key")
        for wrong in (LAST, "value", prosody.message_map("m")):
            with pytest.raises(TypeError, match="definition"):
                await client.state("shop", wrong)  # type: ignore[call-overload]
        for name in ("", "  "):
            with pytest.raises(ValueError, match="must not be empty"):
                await client.state(name, VALUE)
        with pytest.raises(PermanentStateError, match="ttl is zero"):
            await client.state("shop", prosody.value("value", read_cache=0))
        with pytest.raises(ValueError, match="negative"):
            await client.state("shop", prosody.value("value", read_cache=-1))
        del entries, members, line
        gc.collect()
    with pytest.raises(RuntimeError, match="shut down"):
        await client.state("shop", VALUE)


async def test_definitions_reach_the_library(options: dict[str, Any]) -> None:
    class Own:
        def __init__(self, config: Any) -> None:
            self.config = config

        def to_config(self) -> Any:
            return self.config

    good = Own({"name": "own", "kind": "map", "payload": None, "ttl_seconds": 5})
    client = await ProsodyClient.create(**options, state_collections=iter([good]))
    await client.shutdown()
    for wrong, error, text in (
        ([Own({"name": "own", "kind": "tree"})], ValueError, r"state_collections\[0\].kind"),
        ([good, Own(5)], TypeError, r"state_collections\[1\]"),
        ([Own({"name": "x", "kind": "value", "read_cache": -1})], ValueError, "negative"),
        ([5], AttributeError, "to_config"),
        (5, TypeError, "not iterable"),
    ):
        with pytest.raises(error, match=text):
            await ProsodyClient.create(**options, state_collections=wrong)  # type: ignore[arg-type]
