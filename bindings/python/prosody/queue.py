"""A queue of the library, read by one event loop or by hand."""

from __future__ import annotations

import asyncio
import ctypes
from ctypes import byref, c_size_t, c_uint32, c_void_p
from typing import TYPE_CHECKING

from prosody import logs, native, record

if TYPE_CHECKING:
    from prosody.runtime import Runtime

SIZE = 256 * 1024


class Queue:
    """Owns a queue and the buffer into which it is read."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.library = runtime.library
        self.closed = False
        self._allocate(SIZE)
        self._size, self._count = c_size_t(), c_uint32()
        self._refs = byref(self._size), byref(self._count)
        self.error = native.make_error()
        self.error_ref = byref(self.error)
        handle = c_void_p()
        status = self.library.queue_create(byref(handle), self.error_ref)
        if status:
            raise self.library.fault(status, self.error)
        self.handle = handle
        self.fd: int = self.library.queue_fd(handle)

    def _allocate(self, capacity: int) -> None:
        """The padding lets a fixed part be unpacked at the end of the buffer."""
        self._buffer = ctypes.create_string_buffer(capacity + record.PADDING)
        self._address = ctypes.addressof(self._buffer)
        self._capacity = capacity

    def take(self) -> tuple[bytes, int]:
        """What is ready, padded, and its size."""
        size, count = self._refs
        status = self.library.queue_poll(
            self.handle, self._address, self._capacity, 0, size, count, self.error_ref
        )
        if status == native.SHORT:
            self._allocate(1 << self._size.value.bit_length())
            taken = self.take()
            self._allocate(SIZE)
            return taken
        if status != native.OK:
            error = self.library.fault(status, self.error)
            if status == native.ERR_POISONED:
                self.runtime.poison(str(error))
            self.lose(error)
            return b"", 0
        end = self._size.value if self._count.value else 0
        return ctypes.string_at(self._address, end + record.PADDING) if end else b"", end

    def other(self, kind: int, token: int, raw: bytes, offset: int) -> None:
        """Handles a record that is no event."""
        if kind == record.COMPLETION:
            self.settle(token, record.completion(raw, offset))
        elif kind == record.LOG:
            logs.emit(record.line(raw, offset))
        elif kind == record.FATAL:
            self.runtime.poison(record.fault(raw, offset))

    def settle(self, tag: int, completion: record.Completion) -> None:
        """Handles the end of a call."""
        raise NotImplementedError

    def lose(self, error: Exception) -> None:
        """The queue gives nothing any more: it is gone, or this is a forked child."""
        self.close()

    def close(self) -> None:
        """Frees the queue; events that are still open count as failed."""
        if not self.closed:
            self.closed = True
            if self.runtime.forked:
                return
            self.library.queue_destroy(self.handle)


class LoopQueue(Queue):
    """A queue that an event loop reads."""

    def __init__(self, runtime: Runtime, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(runtime)
        self.loop = loop
        self.offset = 0
        self._unfinished = False
        try:
            loop.add_reader(self.fd, self._ready)
        except BaseException:
            super().close()
            raise

    def _ready(self) -> None:
        if self.closed or self._unfinished:
            return
        raw, end = self.take()
        if end:
            self.offset = 0
            self._dispatch(raw, end)

    def _dispatch(self, raw: bytes, end: int) -> None:
        """Handles a batch. When something raises, the rest is handled later.

        SystemExit comes this way out of a handler that was started at once.
        """
        self._unfinished = True
        try:
            self.handle_batch(raw, end)
        finally:
            if self.offset >= end:
                self._unfinished = False
            elif not self.closed and not self.loop.is_closed():
                self.loop.call_soon(self._dispatch, raw, end)

    def handle_batch(self, raw: bytes, end: int) -> None:
        """Handles the records from `offset` on, and moves it before it handles each."""
        unpack = record.HEAD.unpack_from
        while self.offset < end:
            offset = self.offset
            size, kind, _, token = unpack(raw, offset)
            self.offset = offset + size
            self.other(kind, token, raw, offset)

    def close(self) -> None:
        if not self.closed:
            # A forked child shares the parent's epoll: what it removes, the parent loses.
            if not self.runtime.forked and not self.loop.is_closed():
                self.loop.remove_reader(self.fd)
            super().close()

    def close_soon(self) -> None:
        """Closes from any thread."""
        try:
            self.loop.call_soon_threadsafe(self.close)
        except RuntimeError:  # the loop is closed: nobody else touches the queue
            self.close()
