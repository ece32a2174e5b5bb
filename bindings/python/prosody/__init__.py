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
from prosody.message import ExciseMessage, Header, JSONInput, JSONValue, Message, Timer
from prosody.options import Options
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
    "EventHandler",
    "EventHandlerError",
    "ExciseMessage",
    "Header",
    "JSONInput",
    "JSONValue",
    "MapDefinition",
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
    "SetDefinition",
    "StateError",
    "Timer",
    "TransientError",
    "TransientStateError",
    "ValueDefinition",
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
