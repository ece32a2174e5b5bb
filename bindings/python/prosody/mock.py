"""For tests: what clients in mock mode with the same `bootstrap_servers` have in common.

`prosody.testing` is the comfortable way to all of this. ValueError: there are no such clients.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Iterable
from ctypes import byref, c_size_t, c_uint32
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from prosody import codec, native, record, runtime
from prosody.call import Call
from prosody.message import ExciseMessage, Message

Servers: TypeAlias = str | Iterable[str]
Calls: TypeAlias = Literal["read", "write", "produce", "consume", "commit", "store", "broker"]
"""Calls that can be made to fail. Those of the store are reads and writes; the others are the
broker's."""

_MOST_MS = 2**63 - 1
_CALLS = {
    "read": 1,
    "write": 2,
    "produce": 4,
    "consume": 8,
    "commit": 16,
    "store": 1 + 2,
    "broker": 4 + 8 + 16,
}


def advance(time: timedelta | float, bootstrap_servers: Servers) -> None:
    """Moves the clock forward.

    A number means seconds. Timers and retries that become due come now. From there the clock flows
    on; it never goes back. How long handlers and calls take is measured in real time. ValueError:
    also when the time is not within 0 and 100 years.
    """
    _call("mock_advance", _view(bootstrap_servers), _milliseconds(time))


def idle(bootstrap_servers: Servers, timeout: timedelta | float = 10.0) -> Call[None]:
    """Waits until nothing is left to do.

    Then each record of a subscribed topic is handled, nothing is due by the clock, and each
    partition has its owner. The error after the time-out tells what is busy.
    """
    process = runtime.current()
    process.check()
    limit = min(max(_milliseconds(timeout), 0), 2**31 - 1)
    return process.port().begin(
        "idle",
        lambda servers, queue, tag, error: process.library.mock_idle(
            servers, queue, tag, limit, error
        ),
        _view(bootstrap_servers),
    )


def records(bootstrap_servers: Servers, topic: str) -> list[Message[Any] | ExciseMessage]:
    """The records of a topic, in the order in which they were sent.

    A payload that is no JSON stays bytes; a null key is empty.
    """
    servers, name = _view(bootstrap_servers), native.view(topic.encode())
    found: list[Message[Any] | ExciseMessage] = []
    size, count, capacity = c_size_t(), c_uint32(), 1 << 16
    while True:
        buffer = ctypes.create_string_buffer(capacity + record.PADDING)
        status = _call(
            "mock_records", servers, name, len(found), buffer, capacity, byref(size), byref(count)
        )
        if status == native.END:
            return found
        if status == native.SHORT:
            capacity = size.value
            continue
        offset = 0
        while offset < size.value:
            offset = _take(buffer.raw, offset, found)


def fail(bootstrap_servers: Servers, calls: Calls, name: str | None = None, times: int = 1) -> None:
    """Makes the next calls of a kind fail with a transient error, so many; -1: all from now on.

    The name narrows them: the key of a call of the store, the topic of "produce", the group of the
    others. times=0 takes back what was said of this kind and this name.
    """
    if calls not in _CALLS:
        raise ValueError(f"calls must be one of {', '.join(_CALLS)}, not {calls!r}")
    if isinstance(times, bool) or not isinstance(times, int):
        raise TypeError(f"times must be an int, not {type(times).__name__}")
    place = native.view(None if name is None else name.encode())
    _call("mock_fail", _view(bootstrap_servers), _CALLS[calls], place, times)


def rebalance(bootstrap_servers: Servers, group: str, *, lost: bool = False) -> None:
    """Takes all partitions away from the members of a group, which shares them anew.

    Handlers that run may end within shutdown_timeout. lost: they count no more, at once.
    """
    _call("mock_rebalance", _view(bootstrap_servers), native.view(group.encode()), 4 if lost else 2)


def forget(bootstrap_servers: Servers) -> None:
    """Frees all that is kept: records, state, faults. RuntimeError: clients are open."""
    _call("mock_forget", _view(bootstrap_servers))


def _call(name: str, *arguments: Any) -> int:
    process = runtime.current()
    process.check()
    error = native.make_error()
    status: int = getattr(process.library, name)(*arguments, byref(error))
    if status not in (native.OK, native.END, native.SHORT):
        raise process.library.fault(status, error)
    return status


def _view(servers: Servers) -> native.Bytes:
    return native.view((servers if isinstance(servers, str) else ",".join(servers)).encode())


def _milliseconds(time: timedelta | float) -> int:
    if isinstance(time, bool) or not isinstance(time, (int, float, timedelta)):
        raise TypeError(f"expected a timedelta or seconds, not {type(time).__name__}")
    seconds = time.total_seconds() if isinstance(time, timedelta) else time
    if not math.isfinite(seconds):
        raise ValueError("the time is not finite")
    return max(-1, min(math.ceil(seconds * 1000), _MOST_MS))


def _take(raw: bytes, offset: int, found: list[Message[Any] | ExciseMessage]) -> int:
    """Appends the record at an offset; gives the offset of the next one."""
    (
        size, kind, _, _, position, timestamp, partition, _,
        topic_size, key_size, payload_size, source_size, trace_size, state_size,
        _, headers_count,
    ) = record.EVENT.unpack_from(raw, offset)  # fmt: skip
    parts, start = [], offset + record.EVENT.size
    for part in (topic_size, key_size, payload_size, source_size, trace_size, state_size):
        stop = start + (0 if part == record.NULL else part)
        parts.append(raw[start:stop])
        start = stop
    topic, key = parts[0].decode(), parts[1].decode("utf-8", "surrogateescape")
    source = None if source_size == record.NULL else parts[3].decode("utf-8", "replace")
    when, headers = record.moment(timestamp), record.headers(raw, start, headers_count)
    if kind == record.EXCISE:
        found.append(ExciseMessage(topic, partition, position, when, key, headers, source))
    else:
        payload: Any = parts[2]
        with contextlib.suppress(ValueError, RecursionError):
            payload = codec.decode(payload)
        found.append(Message(topic, partition, position, when, key, payload, headers, source))
    return offset + int(size)
