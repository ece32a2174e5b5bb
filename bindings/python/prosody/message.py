"""What a handler receives: messages, excise records and their parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, Union

JSONValue: TypeAlias = Union[  # noqa: UP007 (it names itself)
    bool, int, float, str, list["JSONValue"], dict[str, "JSONValue"], None
]
"""A value as it comes out of JSON."""

JSONInput: TypeAlias = (
    bool | int | float | str | Sequence[Any] | Mapping[str, Any] | Set[Any] | None
)
"""A value that can be written as JSON."""

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    P = TypeVar("P", default=JSONValue)
else:
    from typing import TypeVar

    P = TypeVar("P")


class Header(NamedTuple):
    """A Kafka header. Names may repeat; a value may be missing."""

    name: str
    value: bytes | None


@dataclass(frozen=True)
class Message(Generic[P]):
    """A record with a payload."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime
    key: str
    payload: P
    headers: tuple[Header, ...] = field(default_factory=tuple, compare=False)
    source_system: str | None = field(default=None, compare=False)
    response_requested: bool = field(default=False, compare=False)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Unpacks the headers of a delivered message when they are first read."""
            packed = self.__dict__.get("_packed") if name == "headers" else None
            if packed is None:
                raise AttributeError(
                    f"{type(self).__name__!r} object has no attribute {name!r}",
                    name=name,
                    obj=self,
                )
            from prosody import record

            raw, count = packed
            found = self.__dict__["headers"] = record.headers(raw, 0, count)
            return found


@dataclass(frozen=True)
class ExciseMessage:
    """A record without payload: the data of its key is to be deleted."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime
    key: str
    headers: tuple[Header, ...] = field(default=(), compare=False)
    source_system: str | None = field(default=None, compare=False)
    response_requested: bool = field(default=False, compare=False)


class Draft(Generic[P]):
    """A message in the making.

    The constructor of a frozen dataclass takes four times as long as this one, so that a message is
    made as a draft and then given its real class. Both need the same bases for that.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: datetime,
        key: str,
        payload: P,
        headers: tuple[Header, ...] | None,  # None: they are unpacked later
        source_system: str | None,
        response_requested: bool,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.payload = payload
        if headers is not None:
            self.headers = headers
        self.source_system = source_system
        self.response_requested = response_requested
        self._core = True  # it was delivered


def delivered(message: Any) -> bool:
    """Whether an object is a message that the library has handed out."""
    return isinstance(message, Message) and "_core" in message.__dict__
