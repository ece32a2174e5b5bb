"""One subscription: takes events out of its queue, runs the handler, reports the outcomes."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import logging
import sys
from array import array
from collections.abc import Coroutine
from ctypes import byref
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from prosody import codec, errors, native, record, reports, tracing
from prosody.context import Context
from prosody.handler import EventHandler
from prosody.message import Draft, ExciseMessage, Message
from prosody.queue import LoopQueue
from prosody.timer import Timer

if TYPE_CHECKING:
    from prosody.port import Port

_WORDS = ctypes.sizeof(native.Outcome) // 8
_NAMES = {ExciseMessage: "on_excise", Timer: "on_timer"}
_KNOWN = 1024  # topics and source systems whose text is kept

_log = logging.getLogger("prosody.handler")


if sys.version_info >= (3, 12):

    def _start(
        work: Coroutine[Any, Any, None], context: Context, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Task[None]:
        """Starts the work at once: a handler that never waits costs no turn of the loop."""
        if loop.get_task_factory() is not None:
            return loop.create_task(work)
        return asyncio.Task(work, loop=loop, eager_start=True)

else:

    class _Attempt(asyncio.Task[None]):
        """A task that runs its coroutine even when it is cancelled before its first step.

        Otherwise nothing would report the outcome of the attempt.
        """

        attempt: Context | None = None

        def cancel(self, msg: Any | None = None) -> bool:
            attempt = self.attempt
            if attempt is None or attempt._started or self.done():
                return super().cancel(msg)
            attempt._early = str(msg or "")
            return True

    def _start(
        work: Coroutine[Any, Any, None], context: Context, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Task[None]:
        if loop.get_task_factory() is not None:
            return loop.create_task(work)
        task = _Attempt(work, loop=loop)
        task.attempt = context
        return task


class Subscription(LoopQueue):
    """Owns the attempts of a handler that run on one event loop."""

    def __init__(self, port: Port, client: Any, handler: EventHandler[Any, Any]) -> None:
        super().__init__(port.runtime, port.loop)
        self.port = port
        self.client = client  # the handle
        self.starting = True  # the library has not said yet whether it consumes
        self.active: dict[int, Context] = {}
        self._on_message: Any = handler.on_message
        self._on_excise: Any = handler.on_excise
        self._on_timer: Any = handler.on_timer
        self._texts: dict[bytes, str] = {}
        self._successes: list[int] = []
        self._failures: list[tuple[int, int, bytes | None, bytes | None]] = []
        self._flushing = False
        self._outcomes(256)
        port.subscriptions.add(self)

    # ---- events

    def handle_batch(self, raw: bytes, end: int) -> None:
        unpack = record.EVENT.unpack_from
        loop, port, active = self.loop, self.port, self.active
        texts, draft, decode, null = self._texts, Draft, codec.decode, record.NULL
        tracing.look()
        while self.offset < end:
            offset = self.offset
            (
                size, kind, flags, token, position, timestamp, partition, retry,
                topic_size, key_size, payload_size, source_size, trace_size, state_size,
                _, headers_count,
            ) = unpack(raw, offset)  # fmt: skip
            self.offset = offset + size
            if kind != record.MESSAGE and kind != record.EXCISE:
                self.other(kind, token, raw, offset)
                continue
            start = offset + record.EVENT.size
            stop = start + topic_size
            name = raw[start:stop]
            topic = texts.get(name) or self._text(name)
            start = stop + key_size
            key = raw[stop:start].decode()
            context = Context(token, flags, retry, loop, port)
            payload = unreadable = None
            if payload_size != null:
                stop = start + payload_size
                if kind == record.MESSAGE:
                    try:
                        payload = decode(raw[start:stop])
                    except (ValueError, RecursionError) as error:
                        unreadable = error
                start = stop
            source = None
            if source_size != null:
                stop = start + source_size
                name = raw[start:stop]
                source = texts.get(name) or self._text(name)
                start = stop
            place = None
            if trace_size != null:
                stop = start + trace_size
                place = raw[start:stop], b""
                if state_size != null and state_size:
                    place, stop = _span(raw, start, trace_size, state_size)
                start = stop
            asked = flags & record.FLAG_RESPONSE != 0
            when = record.moment(timestamp)
            if kind == record.MESSAGE:
                event: Any = draft(
                    topic, partition, position, when, key, payload, None, source, asked
                )
                event._packed = raw[start : self.offset], headers_count
                event.__class__ = Message
                method = self._on_message
            else:
                headers = record.headers(raw, start, headers_count)
                event = ExciseMessage(topic, partition, position, when, key, headers, source, asked)
                method = self._on_excise
            if unreadable is not None:
                self._fail(context, event, _unreadable(unreadable))
                continue
            active[token] = context
            task = _start(self._attempt(context, method, event, asked, place), context, loop)
            if not context._over:
                context._task = task

    def _timer(self, raw: bytes, offset: int) -> None:
        _, _, flags, token, second, _, retry, topic_size, key_size, trace_size, state_size = (
            record.TIMING.unpack_from(raw, offset)
        )
        start = offset + record.TIMING.size + topic_size
        stop = start + key_size
        key = raw[start:stop].decode()
        place = None
        if trace_size != record.NULL:
            place, _ = _span(raw, stop, trace_size, state_size)
        tracing.look()
        event = Timer(key, record.moment(second * 1000))
        context = Context(token, flags, retry, self.loop, self.port)
        self.active[token] = context
        work = self._attempt(context, self._on_timer, event, False, place)
        task = _start(work, context, self.loop)
        if not context._over:
            context._task = task

    def _text(self, encoded: bytes) -> str:
        if len(self._texts) >= _KNOWN:
            self._texts.clear()
        text = self._texts[encoded] = encoded.decode()
        return text

    def other(self, kind: int, token: int, raw: bytes, offset: int) -> None:
        if kind == record.TIMER:
            self._timer(raw, offset)
        elif kind == record.CANCEL:
            context = self.active.get(token)
            if context is not None:
                reason = record.CANCELLATION.unpack_from(raw, offset)[4]
                context._interrupt(record.REASONS.get(reason, "the handler is to stop"))
        else:
            super().other(kind, token, raw, offset)

    def settle(self, tag: int, completion: record.Completion) -> None:
        self.port.settle(tag, completion)

    # ---- attempts

    async def _attempt(
        self,
        context: Context,
        method: Any,
        event: Any,
        asked: bool,
        place: tracing.Place | None,
    ) -> None:
        """Runs the handler once. Whatever it does, the attempt gets an outcome."""
        context._started = True
        traced = None
        if place is not None or tracing.on:
            traced = tracing.attempt(_NAMES.get(type(event), "on_message"), event, place)
        try:
            if context._early is not None:
                raise asyncio.CancelledError(context._early)
            result = method(context, event)
            if type(result) is CoroutineType or inspect.isawaitable(result):
                result = await result
        except BaseException as error:
            self._fail(context, event, error)
            if traced is not None:
                traced.fail(error)
            if isinstance(error, (SystemExit, KeyboardInterrupt)):
                self.flush()
                task = asyncio.current_task()
                if task is not None:  # asyncio need not report what ends the program anyway
                    task.add_done_callback(asyncio.Task.exception)
                raise
        else:
            if asked:
                self._respond(context, event, result)
                return
            token = context._token
            self.active.pop(token, None)
            self._successes.append(token)
            if not self._flushing:
                self._flushing = True
                self.loop.call_soon(self.flush)
            context._end()
        finally:
            if traced is not None:
                traced.end()

    def _respond(self, context: Context, event: Any, result: Any) -> None:
        try:
            response = codec.encode(result)
        except (TypeError, ValueError) as error:
            self._fail(context, event, errors.PermanentError(f"the response: {errors.text(error)}"))
        else:
            self._settle(context, native.RESULT_SUCCESS, response, None)

    def _fail(self, context: Context, event: Any, error: BaseException) -> None:
        permanent = errors.is_permanent(error)
        text = errors.describe(error)
        result = native.RESULT_PERMANENT if permanent else native.RESULT_TRANSIENT
        expected = isinstance(error, asyncio.CancelledError) and context._interrupted
        self._settle(context, result, None, text)
        try:
            _log.log(
                logging.WARNING if expected else logging.ERROR,
                "%s handling failed: %s",
                "timer" if type(event) is Timer else "message",
                text.decode("utf-8", "replace"),
                exc_info=None if expected else error,
                extra={**_place(event), "permanent": permanent},
            )
        except Exception:
            if logging.raiseExceptions:
                sys.stderr.write("prosody: a log handler failed\n")
        if not expected and not isinstance(error, (SystemExit, KeyboardInterrupt)):
            reports.capture(event, error)

    def _settle(
        self, context: Context, result: int, response: bytes | None, text: bytes | None
    ) -> None:
        self.active.pop(context._token, None)
        self._failures.append((context._token, result, response, text))
        if not self._flushing and not self.loop.is_closed():
            self._flushing = True
            self.loop.call_soon(self.flush)
        context._end()

    # ---- outcomes

    def _outcomes(self, count: int) -> None:
        """Room for so many plain successes: only the invocation differs."""
        plain = native.Outcome(ctypes.sizeof(native.Outcome), native.RESULT_SUCCESS)
        self._plain = bytearray(bytes(plain) * count)
        self._plain_address = ctypes.addressof(ctypes.c_char.from_buffer(self._plain))
        self._words = memoryview(self._plain).cast("Q")
        self._room = count

    def flush(self) -> None:
        """Reports the outcomes of one turn of the loop."""
        self._flushing = False
        successes, failures = self._successes, self._failures
        if successes:
            self._successes = []
            count = len(successes)
            if count > self._room:
                self._outcomes(1 << count.bit_length())
            self._words[1 : count * _WORDS : _WORDS] = memoryview(array("Q", successes))
            self.library.complete(self._plain_address, count, None)
        if failures:
            self._failures = []
            outcomes = (native.Outcome * len(failures))()
            for outcome, (token, result, response, text) in zip(outcomes, failures, strict=True):
                outcome.size = ctypes.sizeof(native.Outcome)
                outcome.result, outcome.invocation = result, token
                outcome.response, outcome.error_text = native.view(response), native.view(text)
            self.library.complete(byref(outcomes), len(failures), None)

    # ---- end

    def interrupt(self) -> list[asyncio.Task[None]]:
        """Cancels all attempts and returns those that go on."""
        for context in list(self.active.values()):
            context._interrupt("the event loop is closing")
        return [context._task for context in self.active.values() if context._task is not None]

    def abandon(self) -> None:
        """Ends a subscription whose event loop is over; its open events count as failed."""
        if not self.closed:
            self.runtime.unsubscribe(self.client)
            self.close()

    def close(self) -> None:
        if not self.closed:
            self.flush()
            self.port.subscriptions.discard(self)
            super().close()
            self._on_message = self._on_excise = self._on_timer = None


def _span(raw: bytes, start: int, size: int, state_size: int) -> tuple[tracing.Place, int]:
    """The span that a record names, and where its bytes end."""
    middle = start + size
    end = middle if state_size == record.NULL else middle + state_size
    return (raw[start:middle], raw[middle:end]), end


def _place(event: Any) -> dict[str, Any]:
    """What a log line says about an event."""
    if type(event) is Timer:
        return {"key": event.key, "time": event.time}
    place = {"topic": event.topic, "partition": event.partition, "offset": event.offset}
    return place | {"key": event.key}


def _unreadable(error: BaseException) -> errors.PermanentError:
    problem = errors.PermanentError(f"the payload cannot be read: {errors.text(error)[:200]}")
    problem.__cause__ = error
    return problem
