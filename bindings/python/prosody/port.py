"""The meeting point of one event loop and the library: calls that have begun end here."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
from collections.abc import AsyncGenerator, Callable, Sequence
from ctypes import byref
from itertools import count
from typing import TYPE_CHECKING, Any

from prosody import native, record, request, tracing
from prosody.call import Call
from prosody.queue import LoopQueue
from prosody.store import Store

if TYPE_CHECKING:
    from prosody.runtime import Runtime
    from prosody.subscription import Subscription

GRACE_S = 1.0
"""How long an event loop that ends waits for its cancelled handlers."""


class Port(LoopQueue):
    """Owns the calls that were made on one event loop."""

    def __init__(self, runtime: Runtime, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(runtime, loop)
        self.pending: dict[int, asyncio.Future[Any]] = {}
        self._finishers: dict[int, Callable[[record.Completion], Any]] = {}
        self.subscriptions: set[Subscription] = set()
        self.tags = count(1)
        self._outgoing = native.Outgoing(ctypes.sizeof(native.Outgoing))
        self._outgoing_ref = byref(self._outgoing)
        self._sentinel = self._watch()
        with contextlib.suppress(StopIteration):
            self._sentinel.__anext__().send(None)

    async def _watch(self) -> AsyncGenerator[None, None]:
        """Notices the end of the loop: asyncio.run closes open generators just before."""
        try:
            yield
        finally:
            await self._leave()

    def begin(
        self,
        label: str,
        function: Callable[..., int],
        handle: Any,
        *arguments: Any,
        finish: Callable[[record.Completion], Any] | None = None,
        queue: Any = None,
    ) -> Call[Any]:
        """Starts a call of the library that takes a queue and a tag."""
        if tracing.on:
            tracing.enter(self.library)
        future: asyncio.Future[Any] = self.loop.create_future()
        tag = next(self.tags)
        self.pending[tag] = future
        if finish is not None:
            self._finishers[tag] = finish
        status = function(handle, queue or self.handle, tag, *arguments, self.error_ref)
        if status != native.PENDING:
            self._refuse(tag, status)
        return Call(future, label)

    def send(
        self,
        label: str,
        function: Callable[..., int],
        handle: Any,
        topic: bytes,
        key: bytes,
        payload: bytes | None,
        headers: Any,
    ) -> Call[None]:
        """Starts to send a record."""
        tracing.look()
        if tracing.on:
            tracing.enter(self.library)
        out = self._outgoing
        _fill(out, topic, key, payload, headers)
        future: asyncio.Future[None] = self.loop.create_future()
        tag = next(self.tags)
        self.pending[tag] = future
        status = function(handle, self.handle, tag, self._outgoing_ref, self.error_ref)
        if headers is not None:
            out.headers, out.headers_count = None, 0
        out.payload_data = None
        if status != native.PENDING:
            self._refuse(tag, status)
        return Call(future, label)

    def request(
        self,
        label: str,
        function: Callable[..., int],
        handle: Any,
        record: native.Outgoing,
        subsystems: Sequence[str],
        timeout: Any,
    ) -> Call[Any]:
        """Starts a request. Cancelling what waits for it gives it up."""
        tracing.look()
        if tracing.on:
            tracing.enter(self.library)
        packed, _names = request.pack(subsystems, timeout, record)
        tag = next(self.tags)
        future: asyncio.Future[Any] = self.loop.create_future()
        self.pending[tag] = future
        self._finishers[tag] = self._answers
        status = function(handle, self.handle, tag, byref(packed), self.error_ref)
        if status != native.PENDING:
            self._refuse(tag, status)
            return Call(future, label)

        def give_up(ended: asyncio.Future[Any]) -> None:
            if ended.cancelled() and not self.closed:
                self.library.client_abandon(handle, self.handle, tag, None)

        future.add_done_callback(give_up)
        return Call(future, label)

    def _answers(self, completion: record.Completion) -> Any:
        if completion.status != native.OK:
            raise self.library.exception(*completion[:2], completion.text)
        return request.outcomes(completion.data)

    def done(self, label: str, answer: Callable[[], Any]) -> Call[Any]:
        """The result of something that needs no waiting."""
        future: asyncio.Future[Any] = self.loop.create_future()
        try:
            future.set_result(answer())
        except Exception as error:
            future.set_exception(error)
        return Call(future, label)

    def wait(self, label: str, tag: int, finish: Callable[[record.Completion], Any]) -> Call[Any]:
        """The result of a call that has begun, on this event loop and just now."""
        future: asyncio.Future[Any] = self.loop.create_future()
        self.pending[tag] = future
        self._finishers[tag] = finish
        return Call(future, label)

    def failed(self, label: str, error: Exception) -> Call[Any]:
        """The result of a call that has failed."""
        future: asyncio.Future[Any] = self.loop.create_future()
        future.set_exception(error)
        return Call(future, label)

    @functools.cached_property
    def store(self) -> Store:
        """The calls on collections."""
        return Store(self)

    def _refuse(self, tag: int, status: int) -> None:
        """Ends a call that has not begun."""
        error = self.error
        text = "" if status == native.OK else native.text_of(error)
        self.settle(tag, record.Completion(status, error.category, 0, 0, text, b""))

    def settle(self, tag: int, completion: record.Completion) -> None:
        future = self.pending.pop(tag, None)
        if future is None:
            return
        finish = self._finishers.pop(tag, None)
        try:
            if finish is not None:
                result = finish(completion)
            elif completion.status == native.OK:
                result = None
            else:
                raise self.library.exception(*completion[:2], completion.text)
        except Exception as error:
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(result)

    def fail(self, error: Exception) -> None:
        """Ends all calls at once."""
        for future in self._drop():
            if not future.done():
                future.set_exception(error)

    def lose(self, error: Exception) -> None:
        self.fail(error)
        self.close()

    def _drop(self) -> list[asyncio.Future[Any]]:
        futures = list(self.pending.values())
        self.pending.clear()
        self._finishers.clear()
        return futures

    async def _leave(self) -> None:
        """Ends what still runs on a loop that is about to close."""
        tasks = [task for subscription in self.subscriptions for task in subscription.interrupt()]
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_S)
        for future in self._drop():
            future.cancel()
        self.runtime.redirect(self)
        self._read_log()
        self.close()

    def _read_log(self) -> None:
        """Tells the lines that wait."""
        while not self.closed:
            raw, end = self.take()
            if not end:
                return
            offset = 0
            while offset < end:
                size, kind, _, token = record.HEAD.unpack_from(raw, offset)
                if kind == record.LOG:
                    self.other(kind, token, raw, offset)
                offset += size

    def close(self) -> None:
        if self.closed:
            return
        self.runtime.forget(self)
        for subscription in list(self.subscriptions):
            subscription.abandon()
        self._drop()
        super().close()


def _fill(
    out: native.Outgoing, topic: bytes, key: bytes, payload: bytes | None, headers: Any
) -> native.Outgoing:
    """Sets what a record is made of."""
    out.topic_data = topic
    out.topic_size = len(topic)
    out.key_data = key
    out.key_size = len(key)
    out.payload_data = payload
    out.payload_size = 0 if payload is None else len(payload)
    if headers is not None:
        out.headers, out.headers_count = headers, len(headers)
    return out


def outgoing(topic: bytes, key: bytes, payload: bytes | None, headers: Any) -> native.Outgoing:
    """A record for the library."""
    return _fill(native.Outgoing(ctypes.sizeof(native.Outgoing)), topic, key, payload, headers)
