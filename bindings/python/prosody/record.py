"""The packed records that come out of a queue: their layouts and how their parts are read.

Fixed parts are unpacked in one step at an offset. Buffers are padded by PADDING, so that reading
the longest fixed part never runs over the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from struct import Struct
from typing import NamedTuple

from prosody.message import Header

MESSAGE, EXCISE, TIMER, CANCEL, COMPLETION, LOG, FATAL = 1, 2, 3, 4, 5, 6, 7
FLAG_FAILURE, FLAG_RESPONSE = 1, 2
NULL = 0xFFFFFFFF

HEAD = Struct("=IHHQ")
EVENT = Struct("=IHHQqqiIIIIIIIII")
TIMING = Struct("=IHHQqiIIIII")
CANCELLATION = Struct("=IHHQiI")
COMPLETED = Struct("=IHHQiiqqII")
LINE = Struct("=IHHQqiIII")
FAULT = Struct("=IHHQII")
PAIR = Struct("=II")
PADDING = EVENT.size

REASONS = {
    1: "the handler has exceeded its timeout",
    2: "partition has been revoked",
    3: "the consumer is shutting down",
    4: "partition has been lost",
}

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_PRECISE = 2**43  # milliseconds; beyond, a float cannot hold microseconds


class Completion(NamedTuple):
    """The end of an asynchronous call."""

    status: int
    category: int
    value: int
    extra: int
    text: str
    data: bytes


class Line(NamedTuple):
    """A line of the log."""

    time_ns: int
    level: int
    target: str
    text: str
    fields: bytes


def moment(milliseconds: int) -> datetime:
    """A time in UTC; what the calendar cannot hold becomes its first or last millisecond."""
    if 0 <= milliseconds < _PRECISE:
        return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        if milliseconds < 0:
            return datetime.min.replace(tzinfo=timezone.utc)
        return datetime.max.replace(microsecond=999_000, tzinfo=timezone.utc)


def headers(raw: bytes, offset: int, count: int) -> tuple[Header, ...]:
    """Packed headers. A name that is not UTF-8 keeps its bytes as surrogate escapes."""
    return tuple(_headers(raw, offset, count))


def _headers(raw: bytes, offset: int, count: int) -> Iterator[Header]:
    for _ in range(count):
        name_size, value_size = PAIR.unpack_from(raw, offset)
        start = offset + PAIR.size
        middle = start + name_size
        name = raw[start:middle].decode("utf-8", "surrogateescape")
        if value_size == NULL:
            yield Header(name, None)
            offset = middle
        else:
            offset = middle + value_size
            yield Header(name, raw[middle:offset])


def completion(raw: bytes, offset: int) -> Completion:
    _, _, _, _, status, category, value, extra, text_size, data_size = COMPLETED.unpack_from(
        raw, offset
    )
    start = offset + COMPLETED.size
    middle = start + (0 if text_size == NULL else text_size)
    end = middle + (0 if data_size == NULL else data_size)
    text = raw[start:middle].decode("utf-8", "replace")
    return Completion(status, category, value, extra, text, raw[middle:end])


def line(raw: bytes, offset: int) -> Line:
    _, _, _, _, time_ns, level, target_size, text_size, fields_size = LINE.unpack_from(raw, offset)
    start = offset + LINE.size
    first = start + target_size
    second = first + text_size
    return Line(
        time_ns,
        level,
        raw[start:first].decode("utf-8", "replace"),
        raw[first:second].decode("utf-8", "replace"),
        raw[second : second + fields_size],
    )


def fault(raw: bytes, offset: int) -> str:
    size = FAULT.unpack_from(raw, offset)[4]
    start = offset + FAULT.size
    return raw[start : start + size].decode("utf-8", "replace")
