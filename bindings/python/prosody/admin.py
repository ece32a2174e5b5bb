"""Topics: create and delete them."""

from __future__ import annotations

import ctypes
import weakref
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any

from prosody import native, runtime
from prosody.call import Call
from prosody.options import Duration, Options, nanoseconds, settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

_MOST = 65535


class AdminClient:
    """Creates and deletes topics. Other options, such as `kafka`, are those of a client."""

    def __init__(self, **configuration: Unpack[Options]) -> None:
        self._runtime = process = runtime.current()
        process.check()
        self._handle = c_void_p()
        error = native.make_error()
        with settings(process.library, configuration, "AdminClient()") as config:
            status = process.library.admin_create(config, byref(self._handle), byref(error))
        if status:
            raise process.library.fault(status, error)
        weakref.finalize(self, _destroy, process, self._handle).atexit = False

    def create_topic(
        self,
        name: str,
        *,
        partition_count: int | None = None,
        replication_factor: int | None = None,
        cleanup_policy: str | None = None,
        retention: Duration | None = None,
    ) -> Call[None]:
        """Creates a topic; done when it can be used. RuntimeError when it exists already."""
        self._runtime.check()
        topic = native.Topic(
            ctypes.sizeof(native.Topic),
            _count("partition_count", partition_count),
            _count("replication_factor", replication_factor),
            0,
            native.view(_text("name", name)),
            native.view(
                None if cleanup_policy is None else _text("cleanup_policy", cleanup_policy)
            ),
            _milliseconds(retention),
        )
        function = self._runtime.library.admin_create_topic
        return self._runtime.port().begin("create_topic", function, self._handle, byref(topic))

    def delete_topic(self, name: str) -> Call[None]:
        """Deletes a topic. One that does not exist is no error."""
        self._runtime.check()
        title = native.view(_text("name", name))
        function = self._runtime.library.admin_delete_topic
        return self._runtime.port().begin("delete_topic", function, self._handle, title)


def _destroy(process: runtime.Runtime, handle: c_void_p) -> None:
    if not process.forked:
        process.library.admin_destroy(handle)


def _text(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    return value.encode()


def _count(name: str, value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if not 0 <= value <= _MOST:
        raise OverflowError(f"{name} must be between 0 and {_MOST}, got {value}")
    return value


def _milliseconds(retention: Any) -> int:
    if retention is None:
        return 0
    milliseconds = nanoseconds("retention", retention) // 1_000_000
    if not 0 < milliseconds < 2**63:
        raise ValueError("retention: must be at least 1 ms")
    return milliseconds
