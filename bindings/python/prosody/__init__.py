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
from prosody.request import (
    Failure,
    FormatMismatch,
    HandlerError,
    MalformedResponse,
    Outcome,
    ResponseError,
    Success,
    Timeout,
)
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
from prosody.telemetry import flush_telemetry, shutdown_telemetry

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
    "Failure",
    "FormatMismatch",
    "HandlerError",
    "Header",
    "JSONInput",
    "JSONValue",
    "MalformedResponse",
    "MapDefinition",
    "MapHandle",
    "Message",
    "MessageDequeDefinition",
    "MessageMapDefinition",
    "MessageValueDefinition",
    "NullValueError",
    "Options",
    "Outcome",
    "PermanentError",
    "PermanentStateError",
    "ProsodyClient",
    "ProsodyError",
    "PublishedDeque",
    "PublishedMap",
    "PublishedSet",
    "PublishedValue",
    "ResponseError",
    "Scan",
    "SetDefinition",
    "SetHandle",
    "StateError",
    "StoreOutcome",
    "Success",
    "Timeout",
    "Timer",
    "TransientError",
    "TransientStateError",
    "ValueDefinition",
    "ValueHandle",
    "deque",
    "flush_telemetry",
    "map",
    "message_deque",
    "message_map",
    "message_value",
    "permanent",
    "set",
    "shutdown_telemetry",
    "transient",
    "value",
]
