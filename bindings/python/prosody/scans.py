"""Walks over maps, sets and deques: what a scan is asked for, and how its items come."""

from __future__ import annotations

import asyncio
import ctypes
import enum
from collections.abc import AsyncIterator, Callable, Generator
from ctypes import byref
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar

from prosody import native, record, tracing
from prosody.call import Done, Result
from prosody.errors import TransientStateError
from prosody.items import ENTRY, Items
from prosody.store import OVER, Store

if TYPE_CHECKING:
    from prosody.record import Completion

T = TypeVar("T", covariant=True)

_BACKWARD, _KEYS, _AFTER, _BEFORE = 1, 2, 4, 8
_FIRST, _LAST, _START, _STOP = 16, 32, 64, 128
_MOST = 2**64 - 1

_CLOSED = "state cursor used after it was closed"


class Direction(str, enum.Enum):
    """The order of a scan."""

    FORWARD = "forward"
    BACKWARD = "backward"


Way: TypeAlias = Direction | Literal["forward", "backward"]


class KeyQuery(TypedDict, total=False):
    """Which keys a scan gives; all conditions hold at once.

    `from_` or `after` and `to` or `before` are edges in the order of the scan. `range` is an
    ascending slice, without its end.
    """

    prefix: str | None
    from_: str | None
    after: str | None
    to: str | None
    before: str | None
    range: slice | None
    limit: int | None


class DequeQuery(TypedDict, total=False):
    """Which positions a scan gives, counted from the front; as KeyQuery."""

    from_: int | None
    after: int | None
    to: int | None
    before: int | None
    range: range | slice | None
    limit: int | None


_NAMES = {"from_", "after", "to", "before", "range", "limit"}


def _common(direction: Any, query: Any, names: set[str]) -> tuple[native.Scan, Any, Any]:
    """What keys and positions have in common; the edges as (value, exclusive) or None."""
    for name in query:
        if name not in names:
            raise TypeError(f"a scan got an unknown option {name!r}")
    made = native.Scan(ctypes.sizeof(native.Scan))
    try:
        backward = Direction(direction) is Direction.BACKWARD
    except ValueError:
        raise ValueError(f"direction must be forward or backward, not {direction!r}") from None
    made.flags = _BACKWARD if backward else 0
    limit = query.get("limit")
    if limit is not None:
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise TypeError(f"limit must be an int, not {type(limit).__name__}")
        if not 1 <= limit <= _MOST:
            raise ValueError(f"limit must be between 1 and {_MOST}, got {limit}")
        made.limit = limit
    return made, _edge(query, "from_", "after"), _edge(query, "to", "before")


def _edge(query: Any, inclusive: str, exclusive: str) -> tuple[str, Any, bool] | None:
    at, beside = query.get(inclusive), query.get(exclusive)
    if at is not None and beside is not None:
        raise ValueError(f"{inclusive} and {exclusive} exclude each other")
    if beside is not None:
        return exclusive, beside, True
    return None if at is None else (inclusive, at, False)


def _bounds(given: Any, positions: bool) -> tuple[Any, Any] | None:
    if given is None:
        return None
    if not isinstance(given, slice) and not (positions and isinstance(given, range)):
        words = "range or slice" if positions else "slice"
        raise TypeError(f"range must be a {words}, not {type(given).__name__}")
    return given.start, given.stop


def keys(direction: Any, query: Any, bare: bool) -> tuple[native.Scan, Any]:
    """The scan of a map or set, and what has to live until it is open."""
    made, first, last = _common(direction, query, _NAMES | {"prefix"})
    kept = []

    def text(name: str, value: Any) -> native.Bytes:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a str, not {type(value).__name__}")
        encoded = value.encode()
        kept.append(encoded)
        return native.view(encoded)

    if query.get("prefix") is not None:
        made.prefix = text("prefix", query["prefix"])
    if first is not None:
        made.first = text(*first[:2])
        made.flags |= _AFTER if first[2] else 0
    if last is not None:
        made.last = text(*last[:2])
        made.flags |= _BEFORE if last[2] else 0
    bounds = _bounds(query.get("range"), False)
    if bounds is not None:
        if query["range"].step is not None:
            raise ValueError("a range of keys has no step")
        if bounds[0] is not None:
            made.start = text("range", bounds[0])
        if bounds[1] is not None:
            made.stop = text("range", bounds[1])
    made.flags |= _KEYS if bare else 0
    return made, kept


def positions(direction: Any, query: Any) -> tuple[native.Scan, Any]:
    """The scan of a deque."""
    made, first, last = _common(direction, query, _NAMES)
    if first is not None:
        made.first_index = _position(*first[:2])
        made.flags |= _FIRST | (_AFTER if first[2] else 0)
    if last is not None:
        made.last_index = _position(*last[:2])
        made.flags |= _LAST | (_BEFORE if last[2] else 0)
    bounds = _bounds(query.get("range"), True)
    if bounds is not None:
        if query["range"].step not in (None, 1):
            raise ValueError("the step of a range must be 1")
        if bounds[0] is not None:
            made.start_index = _position("range", bounds[0])
            made.flags |= _START
        if bounds[1] is not None:
            made.stop_index = _position("range", bounds[1])
            made.flags |= _STOP
    return made, None


def _position(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if not 0 <= value <= _MOST:
        raise ValueError(f"{name} must be between 0 and {_MOST}, got {value}")
    return value


class _Finished(Done[Any]):
    """The end of a scan, to be awaited."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise StopAsyncIteration
        yield

    def send(self, value: Any, /) -> Any:
        raise StopAsyncIteration


_FINISHED = _Finished(None)


class Scan(AsyncIterator[T]):
    """A walk over a collection. It begins with the first item and reads as it goes.

    It sees the changes of the attempt, and ends with it. Leaving it early is fine.
    """

    def __init__(
        self,
        store: Store,
        state: ctypes.c_uint64,
        attempt: Any,
        query: tuple[native.Scan, Any],
        items: Items,
        take: Callable[[Items, bytes, int], T],
        release: bool = False,
    ) -> None:
        self._store = store
        self._state = state
        self._attempt = attempt
        self._query: tuple[native.Scan, Any] | None = query
        self._items = items
        self._take = take
        self._release = release  # the state is ours
        self._token = 0
        self._raw = b""
        self._at = 0
        self._ended = self._closed = False
        self._pending: asyncio.Future[None] | None = None

    def __aiter__(self) -> Scan[T]:
        return self

    def __anext__(self) -> Result[T]:
        """The next item. Calls that come together are served one after another."""
        if self._closed or self._attempt._over:
            return self._store.port.failed("scan", self._late())
        if self._at < len(self._raw):
            return Done(self._next())
        if self._ended:
            return _FINISHED
        if self._pending is None:
            self._fetch()
            if self._at < len(self._raw):
                return Done(self._next())
            if self._ended:
                return _FINISHED
        return self._wait()

    async def aclose(self) -> None:
        """Ends the scan. A second time is fine."""
        self._closed = True
        self._raw = b""
        self._at = 0
        self._free()

    def __del__(self) -> None:
        self._free()

    async def _wait(self) -> T:
        while True:
            if self._closed or self._attempt._over:
                raise self._late()
            if self._at < len(self._raw):
                return self._next()
            if self._ended:
                raise StopAsyncIteration
            if self._pending is None:
                self._fetch()
            if self._pending is not None:
                await asyncio.shield(self._pending)

    def _late(self) -> TransientStateError:
        return TransientStateError(_CLOSED if self._closed else OVER)

    def _next(self) -> T:
        at = self._at
        self._at = at + ENTRY.unpack_from(self._raw, at)[0]
        return self._take(self._items, self._raw, at)

    def _fetch(self) -> None:
        """Asks for the next items: they are there then, or on their way."""
        store = self._store
        store.here()
        if self._query is not None:
            self._open(*self._query)
        status, tag, data = store.fill(store.library.scan_next, self._token)
        if status == native.OK:
            self._raw, self._at = data, 0
        elif status == native.END:
            self._end()
        elif status == native.PENDING:
            self._pending = store.port.wait("scan", tag, self._arrived).future
            self._pending.add_done_callback(_seen)
        else:
            raise store.exception(status, store.error.category, native.text_of(store.error))

    def _open(self, query: native.Scan, kept: Any) -> None:
        store = self._store
        if tracing.on:
            tracing.enter(store.library)
        status = store.library.scan_open(
            self._state, byref(query), store.token_ref, store.error_ref
        )
        if status != native.OK:
            raise store.exception(status, store.error.category, native.text_of(store.error))
        self._token = store.token.value
        self._query = None

    def _arrived(self, completion: Completion) -> None:
        self._pending = None
        if completion.status == native.OK:
            self._raw, self._at = completion.data, 0
        elif completion.status == native.END:
            self._end()
        else:
            self._store.fail(completion)

    def _end(self) -> None:
        self._ended = True
        self._raw = b""
        self._at = 0
        self._free()

    def _free(self) -> None:
        token, self._token = self._token, 0
        if token:
            self._store.library.scan_close(token)
        if self._release:
            self._release = False
            self._store.library.state_release(self._state)


def _seen(future: asyncio.Future[None]) -> None:
    """Takes note of a failure: those who wait get it as well."""
    if not future.cancelled():
        future.exception()


def key(items: Items, raw: bytes, at: int) -> str:
    """The key of an entry."""
    _, value_size, _, key_size, _ = ENTRY.unpack_from(raw, at)
    start = at + ENTRY.size + (0 if value_size == record.NULL else value_size)
    return raw[start : start + key_size].decode()


def value(items: Items, raw: bytes, at: int) -> Any:
    """The value of an entry."""
    start = at + ENTRY.size
    return items.decode(raw[start : start + ENTRY.unpack_from(raw, at)[1]])


def item(items: Items, raw: bytes, at: int) -> tuple[str, Any]:
    """The key and the value of an entry."""
    return key(items, raw, at), value(items, raw, at)
