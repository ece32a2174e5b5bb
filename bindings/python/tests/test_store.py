"""Calls on collections whose answers come later, and how errors of the library are named."""

from __future__ import annotations

import asyncio
import ctypes
from typing import Any

import fake
import pytest
from conftest import eventually
from rig import Rig, Script

import prosody
from prosody import (
    PermanentStateError,
    ProsodyError,
    StoreOutcome,
    TransientStateError,
    handles,
    native,
)
from prosody.items import ENTRY
from prosody.scans import Scan, keys, value

TRANSIENT, PERMANENT, USAGE, FATAL = 3, 4, 1, 5


class Attempt:
    _over = False


class Answers:
    """The functions of a library that answers as it is told."""

    def __init__(self, library: fake.Library) -> None:
        self.library = library
        self.status = native.PENDING
        self.tags: list[int] = []
        self.closed: list[int] = []

    def __getattr__(self, name: str) -> Any:
        if name in ("exception", "status_name", "fault"):
            return getattr(self.library, name)

        def call(token: Any, queue: Any, tag: Any, *rest: Any) -> int:
            self.tags.append(tag.value)
            return self.status

        return call

    def scan_open(self, state: int, query: Any, out: Any, error: Any) -> int:
        out._obj.value = 77
        return native.OK

    def scan_close(self, token: int) -> None:
        self.closed.append(token)

    def state_release(self, token: Any) -> None:
        self.closed.append(-token.value)


class Bench(Rig):
    def __init__(self) -> None:
        super().__init__(Script())
        self.answers = Answers(self.library)
        self.port.store.library = self.answers
        self.attempt = Attempt()

    def handle(self, definition: Any) -> Any:
        return handles.handle(self.port.store, 5, self.attempt, definition)

    async def called(self) -> None:
        await eventually(lambda: self.answers.tags, "a call")

    def end(self, status: int = native.OK, **more: Any) -> None:
        """Ends the oldest call that waits."""
        tag = self.answers.tags.pop(0)
        self.library.put(self.port, fake.completion(tag, status, **more))


def entry(name: str, json: bytes | None) -> bytes:
    body = (json or b"") + name.encode()
    size = (ENTRY.size + len(body) + 7) // 8 * 8
    length = fake.length(json)
    return (ENTRY.pack(size, length, 0, len(name.encode()), 0) + body).ljust(size, b"\0")


TWO = entry("", b"5") + entry("", None)
VALUE, MAP, DEQUE = prosody.value("v"), prosody.map("m"), prosody.deque("d")


@pytest.mark.parametrize(
    ("definition", "call", "completion", "expected"),
    [
        (VALUE, lambda h: h.get(), {"data": b"[1]"}, [1]),
        (VALUE, lambda h: h.get(), {"status": native.ABSENT}, None),
        (VALUE, lambda h: h.set(1), {}, None),
        (VALUE, lambda h: h.commit(), {}, StoreOutcome.APPLIED),
        (VALUE, lambda h: h.rollback(), {"status": native.ABSENT}, StoreOutcome.NO_OP),
        (MAP, lambda h: h.get("k", 7), {"status": native.ABSENT}, 7),
        (MAP, lambda h: h.get("k", 7), {"data": b"0"}, 0),
        (MAP, lambda h: h.contains("k"), {"status": native.ABSENT}, False),
        (MAP, lambda h: h.contains("k"), {}, True),
        (MAP, lambda h: h.contains_many(["a", "b"]), {"data": b"\1\0"}, [True, False]),
        (MAP, lambda h: h.is_empty(), {"status": native.ABSENT}, True),
        (MAP, lambda h: h.get_many(["k", "l"]), {"data": TWO}, [5, None]),
        (DEQUE, lambda h: h.pop(), {"data": b'"x"'}, "x"),
        (DEQUE, lambda h: h.size(), {"value": 9}, 9),
    ],
)  # fmt: skip
async def test_answers_that_come_later(
    definition: Any, call: Any, completion: Any, expected: Any
) -> None:
    bench = Bench()
    result = call(bench.handle(definition))
    bench.end(**completion)
    found = await result
    assert found == expected
    assert type(found) is type(expected)
    assert not bench.port.pending
    assert not bench.port._finishers


@pytest.mark.parametrize("pending", [True, False])
@pytest.mark.parametrize(
    ("status", "category", "read", "write"),
    [
        (301, TRANSIENT, TransientStateError, TransientStateError),
        (305, TRANSIENT, TransientStateError, TransientStateError),
        (203, 2, TransientStateError, TransientStateError),
        (100, USAGE, TransientStateError, TransientStateError),
        (104, USAGE, TransientStateError, PermanentStateError),
        (400, PERMANENT, PermanentStateError, PermanentStateError),
        (403, PERMANENT, PermanentStateError, PermanentStateError),
        (202, FATAL, ProsodyError, ProsodyError),
    ],
)
async def test_errors_are_state_errors(
    status: int, category: int, read: Any, write: Any, pending: bool
) -> None:
    for call, error in (
        (lambda h: h.get("k"), read),
        (lambda h: h.contains_many(["k"]), read),
        (lambda h: h.set("k", 1), write),
        (lambda h: h.remove("k"), write),
    ):
        bench = Bench()
        if not pending:
            bench.answers.status = status
            bench.port.store.error.category = category
            bench.port.store.error.text = b"why"
            bench.port.store.error.text_size = 3
        result = call(bench.handle(MAP))
        if pending:
            bench.end(status, category=category, text="why")
        with pytest.raises(error, match=r"^why$"):
            await result


def scan(bench: Bench, release: bool = False) -> Scan[Any]:
    store = bench.port.store
    query = keys("forward", {}, False)
    return Scan(
        store, ctypes.c_uint64(5), bench.attempt, query, bench.handle(MAP)._items, value, release
    )


async def test_pulls_that_wait_get_each_item_once() -> None:
    bench = Bench()
    walk = scan(bench)
    pulls = [asyncio.ensure_future(walk.__anext__()) for _ in range(4)]
    await asyncio.sleep(0)
    assert len(bench.answers.tags) == 1, "one call at a time"
    bench.end(data=entry("a", b"1") + entry("b", b"2"))
    await bench.called()
    bench.end(data=entry("c", b"3"))
    await bench.called()
    bench.end(native.END)
    found = await asyncio.gather(*pulls, return_exceptions=True)
    assert found[:3] == [1, 2, 3]
    assert isinstance(found[3], StopAsyncIteration)
    assert bench.answers.closed == [77]


async def test_a_pull_that_is_cancelled_leaves_the_item() -> None:
    bench = Bench()
    walk = scan(bench)
    pull = asyncio.ensure_future(walk.__anext__())
    await asyncio.sleep(0)
    pull.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pull
    bench.end(data=entry("a", b"1"))
    assert await walk.__anext__() == 1


async def test_a_failed_pull_tells_each_who_waits() -> None:
    bench = Bench()
    walk = scan(bench)
    pulls = [asyncio.ensure_future(walk.__anext__()) for _ in range(2)]
    await asyncio.sleep(0)
    bench.end(302, category=TRANSIENT, text="the store is away")
    for pull in pulls:
        with pytest.raises(TransientStateError, match="away"):
            await pull


async def test_a_scan_that_is_left_is_closed() -> None:
    bench = Bench()
    walk = scan(bench, release=True)
    pull = asyncio.ensure_future(walk.__anext__())
    await asyncio.sleep(0)
    bench.end(data=entry("a", b"1") + entry("b", b"2"))
    assert await pull == 1
    del walk, pull
    assert bench.answers.closed == [77, -5]

    unread = scan(bench, release=True)
    await unread.aclose()
    del unread
    assert bench.answers.closed == [77, -5, -5]


async def test_a_scan_ends_with_its_attempt() -> None:
    bench = Bench()
    walk = scan(bench)
    pull = asyncio.ensure_future(walk.__anext__())
    await asyncio.sleep(0)
    bench.end(data=entry("a", b"1") + entry("b", b"2"))
    assert await pull == 1
    bench.attempt._over = True
    with pytest.raises(TransientStateError, match="terminated"):
        await walk.__anext__()


async def test_a_buffer_grows_and_shrinks() -> None:
    bench = Bench()
    store, text = bench.port.store, b'"' + b"x" * 3_000_000 + b'"'

    def answer(*arguments: Any) -> int:
        address, capacity, size = arguments[-4:-1]
        size._obj.value = len(text)
        if capacity.value < len(text):
            return native.SHORT
        ctypes.memmove(address, text, len(text))
        return native.OK

    bench.answers.value_get = answer  # type: ignore[attr-defined]
    assert await bench.handle(VALUE).get() == "x" * 3_000_000
    assert store._capacity.value < 1_000_000


async def test_calls_that_wait_have_tags_of_their_own() -> None:
    bench = Bench()
    first, second = bench.handle(VALUE).get(), bench.handle(VALUE).get()
    assert len(set(bench.answers.tags)) == 2
    bench.end(data=b"1")
    bench.end(data=b"2")
    assert [await first, await second] == [1, 2]


async def test_the_end_of_a_scan_ends_a_loop() -> None:
    bench = Bench()
    bench.answers.status = native.END
    walk = scan(bench)
    for _ in range(2):
        with pytest.raises(StopAsyncIteration):
            await walk.__anext__()
