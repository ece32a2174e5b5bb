"""Keyed state: its definitions, its collections in a handler, and readers of what is published."""

from prosody.definition import (
    DequeDefinition,
    MapDefinition,
    MessageDequeDefinition,
    MessageMapDefinition,
    MessageValueDefinition,
    SetDefinition,
    ValueDefinition,
    deque,
    map,
    message_deque,
    message_map,
    message_value,
    set,
    value,
)
from prosody.handles import DequeState, MapState, SetState, StoreOutcome, ValueState
from prosody.published import PublishedDeque, PublishedMap, PublishedSet, PublishedValue
from prosody.scans import Direction

__all__ = [
    "DequeDefinition",
    "DequeState",
    "Direction",
    "MapDefinition",
    "MapState",
    "MessageDequeDefinition",
    "MessageMapDefinition",
    "MessageValueDefinition",
    "PublishedDeque",
    "PublishedMap",
    "PublishedSet",
    "PublishedValue",
    "SetDefinition",
    "SetState",
    "StoreOutcome",
    "ValueDefinition",
    "ValueState",
    "deque",
    "map",
    "message_deque",
    "message_map",
    "message_value",
    "set",
    "value",
]
