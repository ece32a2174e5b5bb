"""Prosody: a Kafka client for services that keep state per key."""

from prosody.admin import AdminClient
from prosody.call import Call
from prosody.client import ProsodyClient
from prosody.context import Context, Demand, DemandKind
from prosody.errors import (
    EventHandlerError,
    NullValueError,
    PermanentError,
    PermanentStateError,
    ProsodyError,
    StateError,
    TransientError,
    TransientStateError,
    permanent,
    transient,
)
from prosody.handler import EventHandler
from prosody.handles import DequeHandle, MapHandle, SetHandle, StoreOutcome, ValueHandle
from prosody.message import ExciseMessage, Header, JSONInput, JSONValue, Message, Timer
from prosody.options import Options
from prosody.published import PublishedDeque, PublishedMap, PublishedSet, PublishedValue
from prosody.scans import Direction, Scan
from prosody.state import (
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

__all__ = [
    "AdminClient",
    "Call",
    "Context",
    "Demand",
    "DemandKind",
    "DequeDefinition",
    "DequeHandle",
    "Direction",
    "EventHandler",
    "EventHandlerError",
    "ExciseMessage",
    "Header",
    "JSONInput",
    "JSONValue",
    "MapDefinition",
    "MapHandle",
    "Message",
    "MessageDequeDefinition",
    "MessageMapDefinition",
    "MessageValueDefinition",
    "NullValueError",
    "Options",
    "PermanentError",
    "PermanentStateError",
    "ProsodyClient",
    "ProsodyError",
    "PublishedDeque",
    "PublishedMap",
    "PublishedSet",
    "PublishedValue",
    "Scan",
    "SetDefinition",
    "SetHandle",
    "StateError",
    "StoreOutcome",
    "Timer",
    "TransientError",
    "TransientStateError",
    "ValueDefinition",
    "ValueHandle",
    "deque",
    "map",
    "message_deque",
    "message_map",
    "message_value",
    "permanent",
    "set",
    "transient",
    "value",
]
