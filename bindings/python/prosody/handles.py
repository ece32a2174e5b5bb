"""The collections of an attempt's key."""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Iterable
from ctypes import byref
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from prosody import items as payloads
from prosody import native, scans
from prosody.call import Done, Result
from prosody.definition import Definition
from prosody.errors import PermanentStateError, TransientStateError
from prosody.scans import DequeQuery, Direction, KeyQuery, Scan, Way
from prosody.store import NOTHING, OVER, SETTLED, Store

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")
V = TypeVar("V")
D = TypeVar("D")

_BACK, _FRONT = 0, 1
_FAR = 2**63
_KINDS = {"value": 1, "map": 2, "deque": 3, "set": 4}
_PAYLOADS = {None: 0, "json": 0, "message": 1}


class StoreOutcome(enum.Enum):
    """Whether a commit or rollback had anything to do."""

    APPLIED = "applied"
    NO_OP = "no_op"


_OUTCOMES = Done(StoreOutcome.APPLIED), Done(StoreOutcome.NO_OP)
_IS = Done(True), Done(False)
_IS_NOT = Done(False), Done(True)


def collection(definition: Definition, read_cache_ms: int = 0) -> native.Collection:
    """A definition for the library. The name lives as long as the result."""
    name = native.view(definition.name.encode())
    kind, payload = _KINDS[definition.kind], _PAYLOADS[definition.payload]
    size = ctypes.sizeof(native.Collection)
    return native.Collection(size, kind, payload, 0, name, read_cache_ms)


class Handle:
    """What the collections of all kinds have."""

    __slots__ = ("_attempt", "_definition", "_items", "_library", "_release", "_store", "_token")

    def __init__(
        self, store: Store, token: int, attempt: Any, definition: Definition, release: bool = False
    ) -> None:
        self._store = store
        self._library = store.library
        self._token = ctypes.c_uint64(token)
        self._attempt = attempt  # tells whether it is over
        self._definition = definition
        self._items = payloads.of(definition.payload)
        self._release = release  # whether scans free the token

    def commit(self) -> Result[StoreOutcome]:
        """Makes the changes durable now, whatever becomes of the attempt."""
        if self._attempt._over:
            return self._refuse("commit")
        return self._store.write(
            "commit", self._library.state_commit, self._token, answers=_OUTCOMES
        )

    def rollback(self) -> Result[StoreOutcome]:
        """Drops the changes since the last commit."""
        if self._attempt._over:
            return _OUTCOMES[1]
        return self._store.write(
            "rollback", self._library.state_rollback, self._token, answers=_OUTCOMES
        )

    def clear(self) -> Result[None]:
        """Removes all that the collection holds."""
        if self._attempt._over:
            return self._refuse("clear")
        return self._store.write("clear", self._library.state_clear, self._token)

    def _empty(self) -> Result[bool]:
        if self._attempt._over:
            return self._late("is_empty")
        return self._store.write(
            "is_empty", self._library.state_empty, self._token, answers=_IS_NOT, late=OVER
        )

    def _contains(self, key: str) -> Result[bool]:
        encoded = self._store.key(key)
        if self._attempt._over:
            return self._late("contains")
        return self._store.write(
            "contains",
            self._library.state_contains,
            self._token,
            encoded,
            answers=_IS,
            late=OVER,
        )

    def _contains_many(self, keys: Iterable[str]) -> Result[list[bool]]:
        array, count = self._store.keys(keys)
        if self._attempt._over:
            return self._late("contains_many")
        found = (ctypes.c_uint8 * count.value)()
        return self._store.ask(
            "contains_many",
            self._library.state_contains_many,
            self._token,
            lambda: list(map(bool, found)),
            lambda completion: list(map(bool, completion.data)),
            array,
            count,
            found,
        )

    def _change(self, label: str, function: Any, key: str) -> Result[None]:
        encoded = self._store.key(key)
        if self._attempt._over:
            return self._refuse(label)
        return self._store.write(label, function, self._token, encoded)

    def _scan(self, query: Any, take: Any) -> Scan[Any]:
        made: Scan[Any] = Scan(
            self._store, self._token, self._attempt, query, self._items, take, self._release
        )
        self._release = False
        return made

    def _late(self, label: str) -> Result[Any]:
        return self._store.port.failed(label, TransientStateError(OVER))

    def _refuse(self, label: str) -> Result[Any]:
        return self._store.port.failed(label, PermanentStateError(SETTLED))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._definition.name!r}>"


class ValueState(Handle, Generic[T]):
    """One value."""

    __slots__ = ()

    def get(self) -> Result[T | None]:
        """The value, None when there is none."""
        if self._attempt._over:
            return self._late("get")
        return self._store.read("get", self._library.value_get, self._token, self._items.decode)

    def set(self, value: T) -> Result[None]:
        """Sets the value."""
        if self._attempt._over:
            return self._refuse("set")
        return self._store.put("set", self._library.value_set, self._token, self._items, value)


class MapState(Handle, Generic[V]):
    """A map. Its keys are in the order of their UTF-8 bytes."""

    __slots__ = ()

    @overload
    def get(self, key: str) -> Result[V | None]: ...
    @overload
    def get(self, key: str, default: D) -> Result[V | D]: ...
    def get(self, key: str, default: Any = None) -> Result[Any]:
        """The value of a key, or the default when there is none."""
        encoded = self._store.key(key)
        if self._attempt._over:
            return self._late("get")
        return self._store.read(
            "get",
            self._library.map_get,
            self._token,
            self._items.decode,
            encoded,
            absent=NOTHING if default is None else Done(default),
        )

    def get_many(self, keys: Iterable[str]) -> Result[list[V | None]]:
        """The values of keys, in their order; None where there is none."""
        array, count = self._store.keys(keys)
        if self._attempt._over:
            return self._late("get_many")
        return self._store.read(
            "get_many",
            self._library.map_get_many,
            self._token,
            lambda raw: list(payloads.values(bytes(raw), self._items)),
            array,
            count,
        )

    def contains(self, key: str) -> Result[bool]:
        """Whether there is a key."""
        return self._contains(key)

    def contains_many(self, keys: Iterable[str]) -> Result[list[bool]]:
        """Whether there is each of the keys, in their order."""
        return self._contains_many(keys)

    def is_empty(self) -> Result[bool]:
        """Whether there is no key."""
        return self._empty()

    def set(self, key: str, value: V) -> Result[None]:
        """Sets the value of a key."""
        encoded = self._store.key(key)
        if self._attempt._over:
            return self._refuse("set")
        return self._store.put(
            "set", self._library.map_set, self._token, self._items, value, encoded
        )

    def remove(self, key: str) -> Result[None]:
        """Removes a key. One that does not exist is no error."""
        return self._change("remove", self._library.map_remove, key)

    def items(
        self, direction: Way = Direction.FORWARD, **query: Unpack[KeyQuery]
    ) -> Scan[tuple[str, V]]:
        """Walks over keys and values."""
        return self._scan(scans.keys(direction, query, False), scans.item)

    def keys(self, direction: Way = Direction.FORWARD, **query: Unpack[KeyQuery]) -> Scan[str]:
        """Walks over keys; values are not read."""
        return self._scan(scans.keys(direction, query, True), scans.key)

    def values(self, direction: Way = Direction.FORWARD, **query: Unpack[KeyQuery]) -> Scan[V]:
        """Walks over values, in the order of their keys."""
        return self._scan(scans.keys(direction, query, False), scans.value)

    def __aiter__(self) -> Scan[str]:
        return self.keys()


class SetState(Handle):
    """A set of texts, in the order of their UTF-8 bytes."""

    __slots__ = ()

    def add(self, member: str) -> Result[None]:
        """Adds a member."""
        return self._change("add", self._library.set_add, member)

    def discard(self, member: str) -> Result[None]:
        """Removes a member. One that does not exist is no error."""
        return self._change("discard", self._library.set_remove, member)

    def contains(self, member: str) -> Result[bool]:
        """Whether there is a member."""
        return self._contains(member)

    def contains_many(self, members: Iterable[str]) -> Result[list[bool]]:
        """Whether there is each of the members, in their order."""
        return self._contains_many(members)

    def is_empty(self) -> Result[bool]:
        """Whether there is no member."""
        return self._empty()

    def members(self, direction: Way = Direction.FORWARD, **query: Unpack[KeyQuery]) -> Scan[str]:
        """Walks over the members."""
        return self._scan(scans.keys(direction, query, True), scans.key)

    def __aiter__(self) -> Scan[str]:
        return self.members()


class DequeState(Handle, Generic[T]):
    """A double-ended queue."""

    __slots__ = ()

    def append(self, value: T) -> Result[None]:
        """Adds a value at the back; over its capacity the deque loses one at the front."""
        return self._push("append", _BACK, value)

    def appendleft(self, value: T) -> Result[None]:
        """Adds a value at the front; over its capacity the deque loses one at the back."""
        return self._push("appendleft", _FRONT, value)

    def pop(self) -> Result[T | None]:
        """Takes the value at the back; None when the deque is empty."""
        return self._pop("pop", _BACK)

    def popleft(self) -> Result[T | None]:
        """Takes the value at the front; None when the deque is empty."""
        return self._pop("popleft", _FRONT)

    def peek(self) -> Result[T | None]:
        """The value at the back."""
        return self._peek("peek", _BACK)

    def peekleft(self) -> Result[T | None]:
        """The value at the front."""
        return self._peek("peekleft", _FRONT)

    def get(self, index: int) -> Result[T | None]:
        """The value at an index; a negative one counts from the back. None outside."""
        if not isinstance(index, int):
            raise TypeError(f"an index must be an int, not {type(index).__name__}")
        if self._attempt._over:
            return self._late("get")
        if not -_FAR <= index < _FAR:
            return NOTHING
        return self._store.read(
            "get",
            self._library.deque_get,
            self._token,
            self._items.decode,
            ctypes.c_int64(index),
        )

    def size(self) -> Result[int]:
        """How many values there are."""
        if self._attempt._over:
            return self._late("size")
        count = ctypes.c_int64()
        return self._store.ask(
            "size",
            self._library.deque_size,
            self._token,
            lambda: count.value,
            lambda completion: completion.value,
            byref(count),
        )

    def is_empty(self) -> Result[bool]:
        """Whether there is no value."""
        return self._empty()

    def values(self, direction: Way = Direction.FORWARD, **query: Unpack[DequeQuery]) -> Scan[T]:
        """Walks over the values, front to back."""
        return self._scan(scans.positions(direction, query), scans.value)

    def __aiter__(self) -> Scan[T]:
        return self.values()

    def _push(self, label: str, end: int, value: Any) -> Result[None]:
        if self._attempt._over:
            return self._refuse(label)
        store = self._store
        return store.put(label, self._library.deque_push, self._token, self._items, value, end)

    def _pop(self, label: str, end: int) -> Result[Any]:
        if self._attempt._over:
            return self._refuse(label)
        function, decode = self._library.deque_pop, self._items.decode
        return self._store.read(label, function, self._token, decode, end, late=SETTLED)

    def _peek(self, label: str, end: int) -> Result[Any]:
        if self._attempt._over:
            return self._late(label)
        function, decode = self._library.deque_peek, self._items.decode
        return self._store.read(label, function, self._token, decode, end)


_HANDLES: dict[str, type[Handle]] = {
    "value": ValueState,
    "map": MapState,
    "set": SetState,
    "deque": DequeState,
}


def handle(
    store: Store, token: int, attempt: Any, definition: Definition, release: bool = False
) -> Handle:
    """The handle of a collection."""
    return _HANDLES[definition.kind](store, token, attempt, definition, release)


def bind(context: Any, definition: Definition) -> Handle:
    """The handle of a collection in an attempt; the same one for the same collection."""
    if not isinstance(definition, Definition):
        raise TypeError(f"expected a definition of state, not {type(definition).__name__}")
    if context._over:
        raise TransientStateError(OVER)
    known: Handle | None = context._handles.get(definition.name)
    if known is not None and (definition.kind, definition.payload) == (
        known._definition.kind,
        known._definition.payload,
    ):
        return known
    store: Store = context._port.store
    store.here()
    identity = definition.name, definition.kind, definition.payload
    place = store.places.get(identity)
    if place is None:
        place = byref(collection(definition))
    status = store.library.state_bind(
        ctypes.c_uint64(context._token), place, store.token_ref, store.error_ref
    )
    if status != native.OK:
        raise store.exception(status, store.error.category, native.text_of(store.error))
    store.places[identity] = place  # as many as the clients have
    made = handle(store, store.token.value, context, definition)
    context._handles[definition.name] = made
    return made
