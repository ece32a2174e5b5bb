"""Definitions of keyed state: what a client keeps for each key."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Generic, Literal, TypeAlias, TypeVar

T = TypeVar("T")
V = TypeVar("V")
P = TypeVar("P")

Time: TypeAlias = int | timedelta

_TTL_MOST = 630_720_000
_KEYS_MOST = 4096


@dataclass(frozen=True)
class Definition:
    """What the definitions of all kinds have."""

    name: str
    kind: str = ""
    payload: str | None = None
    ttl: Time | None = None
    read_uncommitted: bool | None = None
    published: bool | None = None
    read_cache: float | timedelta | Literal[False] | None = None
    keyset_limit: int | None = None
    capacity: int | None = None

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
        config = {field.name: getattr(self, field.name) for field in fields(self)}
        config["ttl_seconds"] = _seconds(config.pop("ttl"))
        return config


class ValueDefinition(Definition, Generic[T]):
    """Defines one value for each key."""


class MapDefinition(Definition, Generic[V]):
    """Defines a map for each key."""


class SetDefinition(Definition):
    """Defines a set of texts for each key."""


class DequeDefinition(Definition, Generic[T]):
    """Defines a double-ended queue for each key."""


class MessageValueDefinition(Definition, Generic[P]):
    """Defines one message for each key."""


class MessageMapDefinition(Definition, Generic[P]):
    """Defines a map of messages for each key."""


class MessageDequeDefinition(Definition, Generic[P]):
    """Defines a double-ended queue of messages for each key."""


def value(
    name: str,
    *,
    ttl: Time | None = None,
    read_uncommitted: bool | None = None,
    published: bool | None = None,
    read_cache: float | timedelta | Literal[False] | None = None,
) -> ValueDefinition[Any]:
    """Defines one value for each key."""
    return ValueDefinition(name, "value", "json", ttl, read_uncommitted, published, read_cache)


def map(
    name: str,
    *,
    ttl: Time | None = None,
    read_uncommitted: bool | None = None,
    published: bool | None = None,
    read_cache: float | timedelta | Literal[False] | None = None,
    keyset_limit: int | None = None,
) -> MapDefinition[Any]:
    """Defines a map for each key."""
    return MapDefinition(
        name, "map", "json", ttl, read_uncommitted, published, read_cache, keyset_limit
    )


def set(
    name: str,
    *,
    ttl: Time | None = None,
    read_uncommitted: bool | None = None,
    published: bool | None = None,
    read_cache: float | timedelta | Literal[False] | None = None,
    keyset_limit: int | None = None,
) -> SetDefinition:
    """Defines a set of texts for each key."""
    return SetDefinition(
        name, "set", None, ttl, read_uncommitted, published, read_cache, keyset_limit
    )


def deque(
    name: str,
    *,
    ttl: Time | None = None,
    read_uncommitted: bool | None = None,
    published: bool | None = None,
    read_cache: float | timedelta | Literal[False] | None = None,
    capacity: int | None = None,
) -> DequeDefinition[Any]:
    """Defines a double-ended queue for each key."""
    return DequeDefinition(
        name, "deque", "json", ttl, read_uncommitted, published, read_cache, None, capacity
    )


def message_value(
    name: str, *, ttl: Time | None = None, read_uncommitted: bool | None = None
) -> MessageValueDefinition[Any]:
    """Defines one message for each key."""
    return MessageValueDefinition(name, "value", "message", ttl, read_uncommitted)


def message_map(
    name: str,
    *,
    ttl: Time | None = None,
    read_uncommitted: bool | None = None,
    keyset_limit: int | None = None,
) -> MessageMapDefinition[Any]:
    """Defines a map of messages for each key."""
    return MessageMapDefinition(
        name, "map", "message", ttl, read_uncommitted, keyset_limit=keyset_limit
    )


def message_deque(
    name: str,
    *,
    ttl: Time | None = None,
    read_uncommitted: bool | None = None,
    capacity: int | None = None,
) -> MessageDequeDefinition[Any]:
    """Defines a double-ended queue of messages for each key."""
    return MessageDequeDefinition(
        name, "deque", "message", ttl, read_uncommitted, capacity=capacity
    )


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
