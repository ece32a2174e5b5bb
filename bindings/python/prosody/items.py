"""What collections hold: JSON, or messages. How each goes to the library and comes from it."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, Protocol

from prosody import codec, record
from prosody.errors import NullValueError, TransientStateError
from prosody.errors import text as text_of
from prosody.message import Draft, Message, delivered
from prosody.native import Item

ENTRY = Struct("=IIqII")

_NULL = (
    "JSON null is not a storable value; use clear (value/deque) or remove (map) to delete an entry"
)
_FORGED = "only a message prosody delivered can be stored, not one made by hand"


class Items(Protocol):
    """Converts the items of a collection."""

    def encode(self, item: Item, value: Any) -> None:
        """Fills an item that is to be stored, and holds nothing of another converter."""

    def decode(self, raw: Any) -> Any:
        """Makes a value of bytes or a memoryview."""


class _JSON:
    def encode(self, item: Item, value: Any) -> None:
        if value is None:
            raise NullValueError(_NULL)
        try:
            encoded = codec.encode(value)
        except (TypeError, ValueError) as error:
            reason = text_of(error).removeprefix("value is not representable as JSON: ")
            text = f"value is not representable as JSON: {reason}"
            raise TransientStateError(text) from error
        item.json_data = encoded
        item.json_size = len(encoded)

    def decode(self, raw: Any) -> Any:
        return codec.parse(str(raw, "utf-8"))


class _Messages:
    def encode(self, item: Item, value: Any) -> None:
        if not isinstance(value, Message):
            raise TransientStateError(f"expected a Kafka message, not {type(value).__name__}")
        if not delivered(value):
            raise TransientStateError(_FORGED)
        topic = value.topic.encode()
        item.topic_data = topic
        item.topic_size = len(topic)
        item.partition = value.partition
        item.offset = value.offset

    def decode(self, raw: Any) -> Any:
        return message(bytes(raw))


class _Nothing:
    """The items of a set: there are none."""

    def encode(self, item: Item, value: Any) -> None:
        raise NotImplementedError

    def decode(self, raw: Any) -> Any:
        raise NotImplementedError


_KINDS: dict[str | None, Items] = {"json": _JSON(), "message": _Messages(), None: _Nothing()}


def of(payload: str | None) -> Items:
    """The converter for a definition's payload."""
    return _KINDS[payload]


def message(raw: bytes) -> Message[Any]:
    """The message of a packed record."""
    (
        _, _, flags, _, position, timestamp, partition, _,
        topic_size, key_size, payload_size, source_size, trace_size, state_size, _, headers_count,
    ) = record.EVENT.unpack_from(raw, 0)  # fmt: skip
    at = record.EVENT.size
    parts = []
    for size in (topic_size, key_size, payload_size, source_size, trace_size, state_size):
        length = 0 if size == record.NULL else size
        parts.append(None if size == record.NULL else raw[at : at + length])
        at += length
    topic, key, payload, source = parts[:4]
    made: Any = Draft(
        (topic or b"").decode(),
        partition,
        position,
        record.moment(timestamp),
        (key or b"").decode(),
        None if payload is None else codec.decode(payload),
        record.headers(raw, at, headers_count),
        None if source is None else source.decode(),
        flags & record.FLAG_RESPONSE != 0,
    )
    made.__class__ = Message
    result: Message[Any] = made
    return result


def values(raw: bytes, items: Items) -> Iterator[Any]:
    """The values of packed entries; None for one without."""
    at = 0
    while at < len(raw):
        size, value_size, _, _, _ = ENTRY.unpack_from(raw, at)
        start = at + ENTRY.size
        yield None if value_size == record.NULL else items.decode(raw[start : start + value_size])
        at += size
