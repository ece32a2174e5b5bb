"""The calls on collections that one event loop makes. Those that can end at once do."""

from __future__ import annotations

import ctypes
from asyncio import _get_running_loop
from collections.abc import Callable, Iterable
from ctypes import byref, c_size_t, c_uint32, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

from prosody import native, tracing
from prosody.call import Done, Result
from prosody.errors import PermanentStateError, TransientStateError
from prosody.items import Items

if TYPE_CHECKING:
    from prosody.port import Port
    from prosody.record import Completion

_SIZE = 64 * 1024
_KEPT = 1024 * 1024  # a buffer beyond is dropped after its call

NOTHING: Done[Any] = Done(None)

OVER = "state access attempted on a terminated context"
SETTLED = "state mutation attempted on a settled session"

Finish = Callable[["Completion"], Any]


class Store:
    """Owns the buffers of a port's calls. They are used within a call only."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.library: Any = port.library
        self._loop = port.loop
        self._queue = port.handle
        self._tags = port.tags
        self._tag = c_uint64(next(port.tags))
        self.error = native.make_error()
        self.error_ref = byref(self.error)
        self.places: dict[tuple[str, str, str | None], Any] = {}
        self._made: dict[Items, tuple[native.Item, Any]] = {}
        self._key = native.Bytes()
        self._size = c_size_t()
        self._size_ref = byref(self._size)
        self.count = c_uint32()
        self.count_ref = byref(self.count)
        self.token = c_uint64()
        self.token_ref = byref(self.token)
        self._allocate(_SIZE)

    def _allocate(self, capacity: int) -> None:
        self._buffer = bytearray(capacity)
        self._address = c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(self._buffer)))
        self._capacity = c_size_t(capacity)

    def _grow(self) -> None:
        """Makes room for what the last call did not hold."""
        self._allocate(max(_SIZE, 1 << (self._size.value - 1).bit_length()))

    def _shrink(self) -> None:
        if self._capacity.value > _KEPT:
            self._allocate(_SIZE)

    def _spend(self) -> int:
        """The tag of a call that goes on; the next call gets another one."""
        spent = self._tag.value
        self._tag.value = next(self._tags)
        return spent

    def key(self, key: str) -> native.Bytes:
        """A key, until the next call of this function."""
        if not isinstance(key, str):
            raise TypeError(f"a key must be a str, not {type(key).__name__}")
        encoded = key.encode()
        made = self._key
        made.data = encoded
        made.size = len(encoded)
        return made

    def keys(self, keys: Iterable[str]) -> tuple[Any, c_size_t]:
        """Keys as an array, and how many there are."""
        if isinstance(keys, (str, bytes)):
            raise TypeError("keys must be a collection of str, not one text")
        encoded = []
        for key in keys:
            if not isinstance(key, str):
                raise TypeError(f"a key must be a str, not {type(key).__name__}")
            encoded.append(key.encode())
        count = len(encoded)
        return (native.Bytes * count)(*map(native.view, encoded)), c_size_t(count)

    def read(
        self,
        label: str,
        function: Any,
        token: c_uint64,
        decode: Callable[[Any], Any],
        *arguments: Any,
        absent: Done[Any] = NOTHING,
        late: str = OVER,
    ) -> Result[Any]:
        """A call that fills a buffer."""
        if _get_running_loop() is not self._loop:
            self.elsewhere()
        if tracing.on:
            tracing.enter(self.library)
        status = function(
            token,
            self._queue,
            self._tag,
            *arguments,
            self._address,
            self._capacity,
            self._size_ref,
            self.error_ref,
        )
        if status == native.OK:
            return Done(decode(self._buffer[: self._size.value]))
        if status == native.ABSENT:
            return absent
        if status == native.SHORT:
            self._grow()
            try:
                return self.read(
                    label, function, token, decode, *arguments, absent=absent, late=late
                )
            finally:
                self._shrink()

        def finish(completion: Completion) -> Any:
            if completion.status == native.OK:
                return decode(completion.data)
            return (
                absent._result
                if completion.status == native.ABSENT
                else self.fail(completion, late)
            )

        return self.later(label, status, finish, late)

    def fill(self, function: Any, token: int) -> tuple[int, int, bytes]:
        """Calls for the next entries of a scan: the status, the tag if it is pending, the data."""
        while True:
            status = function(
                token,
                self._queue,
                self._tag,
                self._address,
                self._capacity,
                self._size_ref,
                self.count_ref,
                self.error_ref,
            )
            if status != native.SHORT:
                break
            self._grow()
        data = bytes(self._buffer[: self._size.value]) if status == native.OK else b""
        self._shrink()
        return status, self._spend() if status == native.PENDING else 0, data

    def write(
        self,
        label: str,
        function: Any,
        token: c_uint64,
        *arguments: Any,
        answers: tuple[Done[Any], Done[Any]] = (NOTHING, NOTHING),
        late: str = SETTLED,
    ) -> Result[Any]:
        """A call that answers by its status: done, or PROSODY_ABSENT."""
        if _get_running_loop() is not self._loop:
            self.elsewhere()
        if tracing.on:
            tracing.enter(self.library)
        status = function(token, self._queue, self._tag, *arguments, self.error_ref)
        if status == native.OK:
            return answers[0]
        if status == native.ABSENT:
            return answers[1]

        def finish(completion: Completion) -> Any:
            if completion.status in (native.OK, native.ABSENT):
                return answers[completion.status == native.ABSENT]._result
            return self.fail(completion, late)

        return self.later(label, status, finish, late)

    def put(
        self, label: str, function: Any, token: c_uint64, items: Items, value: Any, *arguments: Any
    ) -> Result[None]:
        """A call that stores an item."""
        made = self._made.get(items)
        if made is None:
            item = native.Item(ctypes.sizeof(native.Item))
            made = self._made[items] = item, byref(item)
        item, reference = made
        items.encode(item, value)
        result = self.write(label, function, token, *arguments, reference)
        if item.json_size > _KEPT:
            item.json_data = None
        return result

    def ask(
        self,
        label: str,
        function: Any,
        token: c_uint64,
        ready: Callable[[], Any],
        finish: Finish,
        *arguments: Any,
    ) -> Result[Any]:
        """A call that answers in memory of the caller, or by what is in a completion."""
        if _get_running_loop() is not self._loop:
            self.elsewhere()
        if tracing.on:
            tracing.enter(self.library)
        status = function(token, self._queue, self._tag, *arguments, self.error_ref)
        if status == native.OK:
            return Done(ready())

        def end(completion: Completion) -> Any:
            return finish(completion) if completion.status == native.OK else self.fail(completion)

        return self.later(label, status, end, OVER)

    def here(self) -> None:
        """Refuses calls from elsewhere."""
        if _get_running_loop() is not self._loop:
            self.elsewhere()

    def elsewhere(self) -> None:
        """Refuses calls from elsewhere: the buffers are those of one event loop."""
        raise RuntimeError("keyed state is used on the event loop of its handler")

    def later(self, label: str, status: int, finish: Finish, late: str) -> Result[Any]:
        """The result of a call that did not end at once."""
        if status == native.PENDING:
            return self.port.wait(label, self._spend(), finish)
        category, text = self.error.category, native.text_of(self.error)
        return self.port.failed(label, self.exception(status, category, text, late))

    def fail(self, completion: Completion, late: str = OVER) -> Any:
        """Raises what a completion says."""
        raise self.exception(completion.status, completion.category, completion.text, late)

    def exception(self, status: int, category: int, text: str, late: str = OVER) -> Exception:
        """The exception for a status: a state error but for faults of the process."""
        if status in (native.ERR_FORKED, native.ERR_POISONED):
            fault: Exception = self.library.exception(status, category, text)
            return fault
        word = native.CATEGORIES[category] if 0 <= category < len(native.CATEGORIES) else "none"
        if status == native.ERR_SETTLED:
            word = "permanent" if late == SETTLED else "transient"
        text = text or self.library.status_name(status).decode()
        return (PermanentStateError if word == "permanent" else TransientStateError)(text)
