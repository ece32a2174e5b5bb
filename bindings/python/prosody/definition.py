"""Definitions of keyed state: what a client keeps for each key."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
    V = TypeVar("V", default=Any)
    P = TypeVar("P", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")
    V = TypeVar("V")
    P = TypeVar("P")

Time: TypeAlias = int | timedelta
ReadCache: TypeAlias = float | timedelta | Literal[False]

_TTL_MOST = 630_720_000
_KEYS_MOST = 4096


@dataclass(frozen=True)
class Definition:
    """What the definitions of all kinds have. A kind takes the fields that it declares itself."""

    kind: ClassVar[str] = ""
    payload: ClassVar[str | None] = "json"

    name: str
    ttl: Time | None = None
    read_uncommitted: bool | None = None
    published: bool | None = field(default=None, init=False)
    read_cache: ReadCache | None = field(default=None, init=False)
    keyset_limit: int | None = field(default=None, init=False)
    capacity: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"name must be a str, not {type(self.name).__name__}")
        if not self.name:
            raise ValueError("name must not be empty")
        _range("ttl", _seconds(self.ttl), 1, _TTL_MOST)
        _range("keyset_limit", self.keyset_limit, 0, _KEYS_MOST)
        _range("capacity", self.capacity, 1, 2**63 - 1)
        if self.read_cache is True:
            raise ValueError("read_cache: True is ambiguous; use a duration or False")

    def to_config(self) -> dict[str, Any]:
        """The definition as a dict."""
        config: dict[str, Any] = {"kind": self.kind, "payload": self.payload}
        config |= {field.name: getattr(self, field.name) for field in fields(self)}
        config["ttl_seconds"] = _seconds(config.pop("ttl"))
        return config


@dataclass(frozen=True)
class ValueDefinition(Definition, Generic[T]):
    """Defines one value for each key."""

    kind: ClassVar[str] = "value"
    published: bool | None = None
    read_cache: ReadCache | None = None


@dataclass(frozen=True)
class MapDefinition(Definition, Generic[V]):
    """Defines a map for each key."""

    kind: ClassVar[str] = "map"
    published: bool | None = None
    read_cache: ReadCache | None = None
    keyset_limit: int | None = None


@dataclass(frozen=True)
class SetDefinition(Definition):
    """Defines a set of texts for each key."""

    kind: ClassVar[str] = "set"
    payload: ClassVar[str | None] = None
    published: bool | None = None
    read_cache: ReadCache | None = None
    keyset_limit: int | None = None


@dataclass(frozen=True)
class DequeDefinition(Definition, Generic[T]):
    """Defines a double-ended queue for each key."""

    kind: ClassVar[str] = "deque"
    published: bool | None = None
    read_cache: ReadCache | None = None
    capacity: int | None = None


@dataclass(frozen=True)
class MessageValueDefinition(Definition, Generic[P]):
    """Defines one message for each key."""

    kind: ClassVar[str] = "value"
    payload: ClassVar[str | None] = "message"


@dataclass(frozen=True)
class MessageMapDefinition(Definition, Generic[P]):
    """Defines a map of messages for each key."""

    kind: ClassVar[str] = "map"
    payload: ClassVar[str | None] = "message"
    keyset_limit: int | None = None


@dataclass(frozen=True)
class MessageDequeDefinition(Definition, Generic[P]):
    """Defines a double-ended queue of messages for each key."""

    kind: ClassVar[str] = "deque"
    payload: ClassVar[str | None] = "message"
    capacity: int | None = None


value = ValueDefinition
map = MapDefinition
set = SetDefinition
deque = DequeDefinition
message_value = MessageValueDefinition
message_map = MessageMapDefinition
message_deque = MessageDequeDefinition


def _seconds(ttl: Any) -> int | None:
    if ttl is None:
        return None
    if isinstance(ttl, timedelta):
        if ttl % timedelta(seconds=1):
            raise ValueError("ttl must be a whole number of seconds")
        return ttl // timedelta(seconds=1)
    if isinstance(ttl, bool) or not isinstance(ttl, int):
        raise TypeError(f"ttl must be a timedelta or whole seconds, not {type(ttl).__name__}")
    return ttl


def _range(name: str, number: Any, least: int, most: int) -> None:
    if number is None:
        return
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{name} must be an int, not {type(number).__name__}")
    if not least <= number <= most:
        raise ValueError(f"{name} must be between {least} and {most}, got {number}")
