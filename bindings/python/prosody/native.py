"""The shared library: its functions, its structures and its status codes.

Nothing is loaded at import. The layouts are those of `prosody.h`, version 1.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    byref,
    c_char,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, ClassVar

from prosody import locate
from prosody.errors import ProsodyError

ABI = 1

OK, PENDING, ABSENT, END, SHORT = 0, 1, 2, 3, 4
ERR_ARGUMENT, ERR_HANDLE, ERR_CONFIG, ERR_STATE, ERR_SETTLED = 100, 101, 102, 103, 104
ERR_CLOSED, ERR_FORKED, ERR_POISONED, ERR_REVOKED = 200, 201, 202, 203
ERR_CANCELLED = 303

RESULT_SUCCESS, RESULT_TRANSIENT, RESULT_PERMANENT = 0, 1, 2

STATES = ("unconfigured", "configured", "running", "shut_down")
CATEGORIES = ("none", "usage", "closed", "transient", "permanent", "fatal")

FORKED = "ProsodyClient cannot be used after fork. Create a new client in the child process."


class Bytes(ctypes.Structure):
    """Borrowed bytes; the caller keeps them alive during the call."""

    _fields_: ClassVar = [("data", c_char_p), ("size", c_size_t)]


class Error(ctypes.Structure):
    _fields_: ClassVar = [
        ("size", c_uint32),
        ("status", c_int32),
        ("category", c_int32),
        ("text_size", c_uint32),
        ("text", c_char * 1008),
    ]


class Header(ctypes.Structure):
    _fields_: ClassVar = [("name", Bytes), ("value", Bytes)]


class Outgoing(ctypes.Structure):
    """prosody_outgoing, its bytes flattened: setting them is then one step each."""

    _fields_: ClassVar = [
        ("size", c_uint32),
        ("headers_count", c_uint32),
        ("topic_data", c_char_p),
        ("topic_size", c_size_t),
        ("key_data", c_char_p),
        ("key_size", c_size_t),
        ("payload_data", c_char_p),
        ("payload_size", c_size_t),
        ("headers", POINTER(Header)),
    ]


class Request(ctypes.Structure):
    _fields_: ClassVar = [
        ("size", c_uint32),
        ("subsystems_count", c_uint32),
        ("subsystems", POINTER(Bytes)),
        ("timeout_ms", c_int64),
        ("record", POINTER(Outgoing)),
    ]


class Outcome(ctypes.Structure):
    _fields_: ClassVar = [
        ("size", c_uint32),
        ("result", c_int32),
        ("invocation", c_uint64),
        ("response", Bytes),
        ("error_text", Bytes),
    ]


class Topic(ctypes.Structure):
    _fields_: ClassVar = [
        ("size", c_uint32),
        ("partitions", c_int32),
        ("replication", c_int32),
        ("reserved", c_uint32),
        ("name", Bytes),
        ("cleanup_policy", Bytes),
        ("retention_ms", c_int64),
    ]


class Collection(ctypes.Structure):
    _fields_: ClassVar = [
        ("size", c_uint32),
        ("kind", c_int32),
        ("payload", c_int32),
        ("reserved", c_uint32),
        ("name", Bytes),
        ("read_cache_ms", c_int64),
    ]


class Item(ctypes.Structure):
    """prosody_item, its bytes flattened."""

    _fields_: ClassVar = [
        ("size", c_uint32),
        ("partition", c_int32),
        ("offset", c_int64),
        ("topic_data", c_char_p),
        ("topic_size", c_size_t),
        ("json_data", c_char_p),
        ("json_size", c_size_t),
    ]


class Scan(ctypes.Structure):
    _fields_: ClassVar = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("limit", c_uint64),
        ("prefix", Bytes),
        ("first", Bytes),
        ("last", Bytes),
        ("start", Bytes),
        ("stop", Bytes),
        ("first_index", c_uint64),
        ("last_index", c_uint64),
        ("start_index", c_uint64),
        ("stop_index", c_uint64),
    ]


_OUT = POINTER(c_void_p)
_ERROR = POINTER(Error)
_SIZE = POINTER(c_size_t)
_CALL = (c_int32, c_uint64, c_void_p, c_uint64)  # a state or scan, a queue and a tag
_BUFFER = (c_void_p, c_size_t, _SIZE)

# Name: result, then arguments.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "abi_version": (c_uint32,),
    "version": (c_char_p,),
    "status_name": (c_char_p, c_int32),
    "options": (c_int32, c_void_p, c_size_t, _SIZE, _ERROR),
    "config_create": (c_int32, _OUT, _ERROR),
    "config_set": (c_int32, c_void_p, Bytes, Bytes, _ERROR),
    "config_set_list": (c_int32, c_void_p, Bytes, POINTER(Bytes), c_size_t, _ERROR),
    "config_set_none": (c_int32, c_void_p, Bytes, _ERROR),
    "config_destroy": (None, c_void_p),
    "queue_create": (c_int32, _OUT, _ERROR),
    "queue_fd": (c_int, c_void_p),
    "queue_poll": (
        c_int32,
        c_void_p,
        c_void_p,
        c_size_t,
        c_int32,
        _SIZE,
        POINTER(c_uint32),
        _ERROR,
    ),
    "queue_destroy": (None, c_void_p),
    "client_create": (c_int32, c_void_p, c_void_p, c_uint64, _OUT, _ERROR),
    "client_log": (c_int32, c_void_p, c_void_p, _ERROR),
    "client_subscribe": (c_int32, c_void_p, c_void_p, c_uint64, _ERROR),
    "client_unsubscribe": (c_int32, c_void_p, c_void_p, c_uint64, _ERROR),
    "client_shutdown": (c_int32, c_void_p, c_void_p, c_uint64, _ERROR),
    "client_send": (c_int32, c_void_p, c_void_p, c_uint64, POINTER(Outgoing), _ERROR),
    "client_excise": (c_int32, c_void_p, c_void_p, c_uint64, POINTER(Outgoing), _ERROR),
    "client_request": (c_int32, c_void_p, c_void_p, c_uint64, POINTER(Request), _ERROR),
    "client_request_excise": (c_int32, c_void_p, c_void_p, c_uint64, POINTER(Request), _ERROR),
    "client_abandon": (c_int32, c_void_p, c_void_p, c_uint64, _ERROR),
    "client_state": (c_int32, c_void_p, POINTER(c_int32), _ERROR),
    "client_partitions": (c_int32, c_void_p, POINTER(c_uint32), _ERROR),
    "client_stalled": (c_int32, c_void_p, POINTER(c_int32), _ERROR),
    "client_source": (c_int32, c_void_p, c_void_p, c_size_t, _SIZE, _ERROR),
    "client_destroy": (None, c_void_p),
    "trace_enter": (c_int32, Bytes, Bytes),
    "telemetry_flush": (c_int32, c_void_p, c_uint64, _ERROR),
    "telemetry_shutdown": (c_int32, c_void_p, c_uint64, _ERROR),
    "complete": (c_int32, c_void_p, c_size_t, _ERROR),
    "should_cancel": (c_int32, c_uint64),
    "timer_schedule": (c_int32, c_uint64, c_void_p, c_uint64, c_int64, c_uint32, _ERROR),
    "timer_unschedule": (c_int32, c_uint64, c_void_p, c_uint64, c_int64, c_uint32, _ERROR),
    "timer_clear": (c_int32, c_uint64, c_void_p, c_uint64, c_uint32, _ERROR),
    "timer_list": (
        c_int32,
        c_uint64,
        c_void_p,
        c_uint64,
        POINTER(c_int64),
        c_size_t,
        _SIZE,
        _ERROR,
    ),
    "state_release": (None, c_uint64),
    "scan_open": (c_int32, c_uint64, POINTER(Scan), POINTER(c_uint64), _ERROR),
    "scan_next": (*_CALL, *_BUFFER, POINTER(c_uint32), _ERROR),
    "scan_close": (None, c_uint64),
    "reader_open": (c_int32, c_void_p, Bytes, POINTER(Collection), _OUT, _ERROR),
    "reader_bind": (c_int32, c_void_p, Bytes, POINTER(c_uint64), _ERROR),
    "reader_destroy": (None, c_void_p),
    "mock_advance": (c_int32, Bytes, c_int64, _ERROR),
    "mock_idle": (c_int32, Bytes, c_void_p, c_uint64, c_int32, _ERROR),
    "mock_records": (c_int32, Bytes, Bytes, c_uint64, *_BUFFER, POINTER(c_uint32), _ERROR),
    "mock_fail": (c_int32, Bytes, c_uint32, Bytes, c_int64, _ERROR),
    "mock_rebalance": (c_int32, Bytes, Bytes, c_int32, _ERROR),
    "mock_forget": (c_int32, Bytes, _ERROR),
    "mock_reader": (c_int32, c_void_p, Bytes, POINTER(Collection), _OUT, _ERROR),
    "admin_create": (c_int32, c_void_p, _OUT, _ERROR),
    "admin_create_topic": (c_int32, c_void_p, c_void_p, c_uint64, POINTER(Topic), _ERROR),
    "admin_delete_topic": (c_int32, c_void_p, c_void_p, c_uint64, Bytes, _ERROR),
    "admin_destroy": (None, c_void_p),
}

# The calls on collections. To check their arguments costs as much as the call, so ctypes does not:
# each one has to be an object of its C type (an int stands for int32_t), as prosody.store and
# prosody.handles make them.
_KEYED: dict[str, tuple[Any, ...]] = {
    "state_bind": (c_int32, c_uint64, POINTER(Collection), POINTER(c_uint64), _ERROR),
    "state_commit": (*_CALL, _ERROR),
    "state_rollback": (*_CALL, _ERROR),
    "state_clear": (*_CALL, _ERROR),
    "state_empty": (*_CALL, _ERROR),
    "state_contains": (*_CALL, Bytes, _ERROR),
    "state_contains_many": (*_CALL, POINTER(Bytes), c_size_t, c_void_p, _ERROR),
    "value_get": (*_CALL, *_BUFFER, _ERROR),
    "value_set": (*_CALL, POINTER(Item), _ERROR),
    "map_get": (*_CALL, Bytes, *_BUFFER, _ERROR),
    "map_get_many": (*_CALL, POINTER(Bytes), c_size_t, *_BUFFER, _ERROR),
    "map_set": (*_CALL, Bytes, POINTER(Item), _ERROR),
    "map_remove": (*_CALL, Bytes, _ERROR),
    "set_add": (*_CALL, Bytes, _ERROR),
    "set_remove": (*_CALL, Bytes, _ERROR),
    "deque_push": (*_CALL, c_int32, POINTER(Item), _ERROR),
    "deque_pop": (*_CALL, c_int32, *_BUFFER, _ERROR),
    "deque_peek": (*_CALL, c_int32, *_BUFFER, _ERROR),
    "deque_get": (*_CALL, c_int64, *_BUFFER, _ERROR),
    "deque_size": (*_CALL, POINTER(c_int64), _ERROR),
}


class Library:
    """The loaded library; its functions are attributes without their prefix."""

    def __init__(self, path: str) -> None:
        try:
            self._handle = ctypes.CDLL(path)
        except OSError as error:
            raise RuntimeError(locate.reason(path, error)) from error
        self.path = path
        for name, (result, *arguments) in (_FUNCTIONS | _KEYED).items():
            try:
                function = getattr(self._handle, f"prosody_{name}")
            except AttributeError:
                raise RuntimeError(
                    f"{path} lacks prosody_{name}; it does not belong to this package"
                ) from None
            function.restype = result
            function.argtypes = None if name in _KEYED else arguments
            setattr(self, name, function)
            if name == "abi_version" and function() != ABI:
                raise RuntimeError(
                    f"{path} speaks version {function()} of the C interface, this package"
                    f" version {ABI}; install both from one release"
                )

    def __getattr__(self, name: str) -> Any:  # for type checkers; all functions are set above
        raise AttributeError(name)

    def fault(self, status: int, error: Error | None = None) -> Exception:
        """The exception for a status."""
        if error is None:
            return self.exception(status, 0, "")
        return self.exception(status, error.category, text_of(error))

    def exception(self, status: int, category: int, text: str) -> Exception:
        """ValueError for a malformed argument or option, otherwise a RuntimeError."""
        name = self.status_name(status).decode()
        if status == ERR_FORKED:
            return ProsodyError(FORKED, name, "usage")
        text = text or name
        if status == ERR_ARGUMENT:
            return ValueError(text)
        word = CATEGORIES[category] if 0 <= category < len(CATEGORIES) else "none"
        return ProsodyError(text, name, word)

    def text(self, function: Any, *arguments: Any) -> bytes:
        """Calls a function that writes into a buffer of the caller."""
        error, size, capacity = make_error(), c_size_t(), 16384
        while True:
            buffer = ctypes.create_string_buffer(capacity)
            status = function(*arguments, buffer, capacity, byref(size), byref(error))
            if status == OK:
                return buffer.raw[: size.value]
            if status != SHORT:
                raise self.fault(status, error)
            capacity = size.value


def make_error() -> Error:
    return Error(ctypes.sizeof(Error))


def text_of(error: Error) -> str:
    """The text of an error; it may hold NUL characters."""
    start = ctypes.addressof(error) + Error.text.offset
    return ctypes.string_at(start, min(error.text_size, 1007)).decode("utf-8", "replace")


def view(data: bytes | None) -> Bytes:
    """Bytes for a call; None is null."""
    return Bytes(None, 0) if data is None else Bytes(data, len(data))
