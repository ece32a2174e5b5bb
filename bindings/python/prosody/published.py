"""What other services publish of their state, read by key."""

from __future__ import annotations

from collections.abc import Iterable
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from prosody import native
from prosody.call import Result
from prosody.definition import (
    Definition,
    DequeDefinition,
    MapDefinition,
    SetDefinition,
    ValueDefinition,
)
from prosody.errors import PermanentStateError
from prosody.handles import DequeState, Handle, MapState, SetState, ValueState, collection
from prosody.handles import handle as make
from prosody.options import nanoseconds
from prosody.scans import DequeQuery, Direction, KeyQuery, Scan, Way

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from prosody.runtime import Core, Runtime

T = TypeVar("T")
V = TypeVar("V")
D = TypeVar("D")


class Published:
    """What the readers of all kinds have. They see what is committed."""

    _over = False  # stands for the attempt: a scan keeps its reader

    def __init__(self, runtime: Runtime, reader: c_void_p, definition: Definition) -> None:
        self._runtime = runtime
        self._reader = reader
        self._definition = definition

    def __del__(self) -> None:
        self._runtime.library.reader_destroy(self._reader)

    def _at(self, key: str) -> Handle:
        """The collection of a key, which a call or a scan frees."""
        self._runtime.check()
        store = self._runtime.port().store
        status = store.library.reader_bind(
            self._reader, store.key(key), store.token_ref, store.error_ref
        )
        if status != native.OK:
            raise store.exception(status, store.error.category, native.text_of(store.error))
        return make(store, store.token.value, self, self._definition, release=True)

    def _ask(self, key: str, method: Any, *arguments: Any) -> Result[Any]:
        bound = self._at(key)
        try:
            result: Result[Any] = method(bound, *arguments)
            return result
        finally:  # what is pending goes on
            bound._library.state_release(bound._token)

    def _walk(self, key: str, method: Any, direction: Way, query: Any) -> Any:
        bound = self._at(key)
        try:
            return method(bound, direction, **query)
        finally:
            if bound._release:  # no scan has it
                bound._library.state_release(bound._token)


class PublishedValue(Published, Generic[T]):
    """A published value."""

    def get(self, key: str) -> Result[T | None]:
        """The value of a key, None when there is none."""
        return self._ask(key, ValueState.get)


class PublishedMap(Published, Generic[V]):
    """A published map."""

    @overload
    def get(self, key: str, name: str) -> Result[V | None]: ...
    @overload
    def get(self, key: str, name: str, default: D) -> Result[V | D]: ...
    def get(self, key: str, name: str, default: Any = None) -> Result[Any]:
        """An entry of a key's map, or the default when there is none."""
        return self._ask(key, MapState.get, name, default)

    def get_many(self, key: str, names: Iterable[str]) -> Result[list[V | None]]:
        """Entries of a key's map, in the order of the names."""
        return self._ask(key, MapState.get_many, names)

    def contains(self, key: str, name: str) -> Result[bool]:
        """Whether a key's map has an entry."""
        return self._ask(key, MapState.contains, name)

    def contains_many(self, key: str, names: Iterable[str]) -> Result[list[bool]]:
        """Whether a key's map has each of the entries."""
        return self._ask(key, MapState.contains_many, names)

    def is_empty(self, key: str) -> Result[bool]:
        """Whether a key's map has no entry."""
        return self._ask(key, MapState.is_empty)

    def items(
        self, key: str, direction: Way = Direction.FORWARD, **query: Unpack[KeyQuery]
    ) -> Scan[tuple[str, V]]:
        """Walks over names and values."""
        scan: Scan[tuple[str, V]] = self._walk(key, MapState.items, direction, query)
        return scan

    def keys(
        self, key: str, direction: Way = Direction.FORWARD, **query: Unpack[KeyQuery]
    ) -> Scan[str]:
        """Walks over names; values are not read."""
        scan: Scan[str] = self._walk(key, MapState.keys, direction, query)
        return scan

    def values(
        self, key: str, direction: Way = Direction.FORWARD, **query: Unpack[KeyQuery]
    ) -> Scan[V]:
        """Walks over values, in the order of their names."""
        scan: Scan[V] = self._walk(key, MapState.values, direction, query)
        return scan


class PublishedSet(Published):
    """A published set."""

    def contains(self, key: str, member: str) -> Result[bool]:
        """Whether a key's set has a member."""
        return self._ask(key, SetState.contains, member)

    def contains_many(self, key: str, members: Iterable[str]) -> Result[list[bool]]:
        """Whether a key's set has each of the members."""
        return self._ask(key, SetState.contains_many, members)

    def is_empty(self, key: str) -> Result[bool]:
        """Whether a key's set has no member."""
        return self._ask(key, SetState.is_empty)

    def members(
        self, key: str, direction: Way = Direction.FORWARD, **query: Unpack[KeyQuery]
    ) -> Scan[str]:
        """Walks over the members."""
        scan: Scan[str] = self._walk(key, SetState.members, direction, query)
        return scan


class PublishedDeque(Published, Generic[T]):
    """A published double-ended queue."""

    def get(self, key: str, index: int) -> Result[T | None]:
        """The value at an index; a negative one counts from the back. None outside."""
        return self._ask(key, DequeState.get, index)

    def size(self, key: str) -> Result[int]:
        """How many values there are."""
        return self._ask(key, DequeState.size)

    def is_empty(self, key: str) -> Result[bool]:
        """Whether there is no value."""
        return self._ask(key, DequeState.is_empty)

    def peek(self, key: str) -> Result[T | None]:
        """The value at the back."""
        return self._ask(key, DequeState.peek)

    def peekleft(self, key: str) -> Result[T | None]:
        """The value at the front."""
        return self._ask(key, DequeState.peekleft)

    def values(
        self, key: str, direction: Way = Direction.FORWARD, **query: Unpack[DequeQuery]
    ) -> Scan[T]:
        """Walks over the values, front to back."""
        scan: Scan[T] = self._walk(key, DequeState.values, direction, query)
        return scan


_READERS: dict[str, type[Published]] = {
    "value": PublishedValue,
    "map": PublishedMap,
    "set": PublishedSet,
    "deque": PublishedDeque,
}

_JSON = (ValueDefinition, MapDefinition, SetDefinition, DequeDefinition)


def open(core: Core, subsystem: str, definition: Any) -> Published:
    """The reader of a collection; it reads nothing yet."""
    if not isinstance(subsystem, str):
        raise TypeError(f"subsystem must be a str, not {type(subsystem).__name__}")
    if not isinstance(definition, _JSON) or definition.payload not in ("json", None):
        name = type(definition).__name__
        raise TypeError(f"expected a definition of a value, map, set or deque of JSON, not {name}")
    return reader(core, core.runtime.library.reader_open, subsystem, definition)


def reader(core: Core, function: Any, place: str, definition: Any) -> Published:
    """The reader that a function of the library opens at a place."""
    if not isinstance(definition, Definition):
        raise TypeError(f"expected a definition of state, not {type(definition).__name__}")
    handle, error = c_void_p(), native.make_error()
    status = function(
        core.handle,
        native.view(place.encode()),
        byref(collection(definition, _window(definition.read_cache))),
        byref(handle),
        byref(error),
    )
    if status != native.OK:
        raise core.runtime.library.fault(status, error)
    return _READERS[definition.kind](core.runtime, handle, definition)


def _window(read_cache: Any) -> int:
    """How old an answer may be, as the library takes it."""
    if read_cache is None:
        return 0
    if read_cache is False:
        return -1
    window = nanoseconds("read_cache", read_cache)
    if window == 0:
        raise PermanentStateError("invalid read-cache policy: cache ttl is zero")
    return max(1, window // 1_000_000)
