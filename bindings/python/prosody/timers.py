"""The timer calls of a handler, and how a time becomes the second of a timer."""

from __future__ import annotations

import ctypes
import struct
from ctypes import byref, c_size_t
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from prosody import native, record

if TYPE_CHECKING:
    from prosody.call import Call
    from prosody.port import Port

CLEAR, IMMEDIATE = 1, 2

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_HALF_US = 500_000
_DAY_S = 24 * 60 * 60


def second(time: datetime) -> int:
    """The second of a time, half a second rounded up."""
    if not isinstance(time, datetime):
        raise TypeError(f"expected a datetime, not {type(time).__name__}")
    if time.utcoffset() is None:
        raise TypeError("expected a datetime with non-None tzinfo")
    since: timedelta = time - _EPOCH
    return since.days * _DAY_S + since.seconds + (since.microseconds >= _HALF_US)


def scheduled(port: Port, token: int) -> Call[list[datetime]]:
    """Starts to list the timers of an invocation's key."""
    library, ready = port.library, None

    def ask(handle: int, queue: Any, tag: int, error: Any) -> int:
        nonlocal ready
        capacity, count = 64, c_size_t()
        while True:
            seconds = (ctypes.c_int64 * capacity)()
            status: int = library.timer_list(
                handle, queue, tag, seconds, capacity, byref(count), error
            )
            if status != native.SHORT:
                break
            capacity = count.value
        if status == native.OK:
            ready = seconds[: count.value]
        return status

    def finish(completion: record.Completion) -> list[datetime]:
        if completion.status != native.OK:
            raise library.exception(*completion[:2], completion.text)
        seconds = ready
        if seconds is None:
            seconds = list(struct.unpack(f"={completion.value}q", completion.data))
        return [record.moment(value * 1000) for value in seconds]

    return port.begin("scheduled", ask, token, finish=finish)
