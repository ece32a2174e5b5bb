"""A stand-in for the shared library: queues that a test fills with packed records by hand."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from typing import Any

from prosody import native, record


def pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 8)


def sized(
    layout: struct.Struct, kind: int, flags: int, token: int, *rest: Any, tail: bytes
) -> bytes:
    body = pad(layout.pack(0, kind, flags, token, *rest) + tail)
    return struct.pack("=I", len(body)) + body[4:]


def length(data: bytes | None) -> int:
    return record.NULL if data is None else len(data)


def pack_headers(headers: list[tuple[bytes, bytes | None]]) -> bytes:
    return b"".join(
        struct.pack("=II", len(name), length(value)) + name + (value or b"")
        for name, value in headers
    )


def message(
    token: int,
    payload: bytes | None = b"null",
    *,
    key: str = "key",
    topic: str = "topic",
    flags: int = 0,
    retry: int = 0,
    source: bytes | None = None,
    trace: bytes | None = None,
    state: bytes | None = None,
    headers: list[tuple[bytes, bytes | None]] | None = None,
    timestamp: int = 1_700_000_000_123,
    offset: int = 7,
) -> bytes:
    packed = pack_headers(headers or [])
    parts = [topic.encode(), key.encode(), payload, source, trace, state]
    return sized(
        record.EVENT,
        record.EXCISE if payload is None else record.MESSAGE,
        flags,
        token,
        offset,
        timestamp,
        2,
        retry,
        *map(length, parts),
        len(packed),
        len(headers or []),
        tail=b"".join(part or b"" for part in parts) + packed,
    )


def timer(
    token: int,
    second: int,
    *,
    key: str = "key",
    topic: str = "topic",
    flags: int = 0,
    retry: int = 0,
    trace: bytes | None = None,
    state: bytes | None = None,
) -> bytes:
    parts = [topic.encode(), key.encode(), trace, state]
    return sized(
        record.TIMING,
        record.TIMER,
        flags,
        token,
        second,
        2,
        retry,
        *map(length, parts),
        tail=b"".join(part or b"" for part in parts),
    )


def cancel(token: int, reason: int) -> bytes:
    return sized(record.CANCELLATION, record.CANCEL, 0, token, reason, 0, tail=b"")


def completion(
    tag: int, status: int, text: str = "", data: bytes = b"", category: int = 0, value: int = 0
) -> bytes:
    encoded = text.encode()
    return sized(
        record.COMPLETED,
        record.COMPLETION,
        0,
        tag,
        status,
        category,
        value,
        0,
        len(encoded),
        len(data),
        tail=encoded + data,
    )


def line(level: int, target: str, text: str, fields: bytes = b"") -> bytes:
    parts = [target.encode(), text.encode(), fields]
    return sized(
        record.LINE, record.LOG, 0, 0, 10**18, level, *map(len, parts), tail=b"".join(parts)
    )


def fatal(text: str) -> bytes:
    return sized(record.FAULT, record.FATAL, 0, 0, len(text), 0, tail=text.encode())


class Library:
    """Has the functions that queues, ports and subscriptions use."""

    def __init__(self) -> None:
        self.queues: dict[int, list[bytes]] = {}
        self.outcomes: list[tuple[int, int, bytes | None, bytes | None]] = []
        self.status = native.OK  # what a poll returns
        self.answer = native.PENDING  # what a call returns
        self.called: list[tuple[str, int]] = []
        self.destroyed: list[int] = []

    def put(self, queue: Any, *records: bytes) -> None:
        fd = queue.handle.value - 1
        self.queues[fd].extend(records)
        os.eventfd_write(fd, 1)

    def queue_create(self, out: Any, error: Any) -> int:
        fd = os.eventfd(0, os.EFD_NONBLOCK)
        self.queues[fd] = []
        out._obj.value = fd + 1
        return native.OK

    def queue_fd(self, handle: Any) -> int:
        return int(handle.value) - 1

    def queue_poll(
        self,
        handle: Any,
        buffer: int,
        capacity: int,
        timeout: int,
        size: Any,
        count: Any,
        error: Any,
    ) -> int:
        waiting = self.queues[handle.value - 1]
        if self.status != native.OK:
            return self.status
        size._obj.value = count._obj.value = 0
        if waiting and len(waiting[0]) > capacity:
            size._obj.value = len(waiting[0])
            return native.SHORT
        while waiting and size._obj.value + len(waiting[0]) <= capacity:
            body = waiting.pop(0)
            ctypes.memmove(buffer + size._obj.value, body, len(body))
            size._obj.value += len(body)
            count._obj.value += 1
        if not waiting:
            with contextlib.suppress(BlockingIOError):  # nothing has come since the last poll
                os.eventfd_read(handle.value - 1)
        return native.OK

    def queue_destroy(self, handle: Any) -> None:
        fd = handle.value - 1
        self.destroyed.append(fd)
        del self.queues[fd]
        os.close(fd)

    def complete(self, outcomes: Any, count: int, error: Any) -> int:
        start = outcomes if isinstance(outcomes, int) else ctypes.addressof(outcomes._obj)
        for outcome in (native.Outcome * count).from_address(start):
            assert outcome.size == ctypes.sizeof(native.Outcome)
            self.outcomes.append(
                (
                    outcome.invocation,
                    outcome.result,
                    outcome.response.data,
                    outcome.error_text.data,
                )
            )
        return native.OK

    def should_cancel(self, token: int) -> int:
        return native.OK

    def client_log(self, *arguments: Any) -> int:
        return native.OK

    def status_name(self, status: int) -> bytes:
        return b"PROSODY_ERR_%d" % status

    def exception(self, status: int, category: int, text: str) -> Exception:
        return native.Library.exception(self, status, category, text)  # type: ignore[arg-type]

    def fault(self, status: int, error: Any = None) -> Exception:
        return native.Library.fault(self, status, error)  # type: ignore[arg-type]

    def call(self, handle: Any, queue: Any, tag: int, *rest: Any) -> int:
        self.called.append((str(handle), tag))
        return self.answer
