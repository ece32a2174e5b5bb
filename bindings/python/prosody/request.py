"""What comes of a request: one outcome for each subsystem."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import pointer, sizeof
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias

from prosody import codec, native
from prosody.message import JSONValue
from prosody.options import nanoseconds

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=JSONValue)
else:
    from typing import TypeVar

    T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HandlerError:
    """The handler of the subsystem failed for good."""

    message: str


@dataclass(frozen=True, slots=True)
class Timeout:
    """No response arrived before the deadline."""

    message: ClassVar[str] = "no response arrived before the deadline"


@dataclass(frozen=True, slots=True)
class FormatMismatch:
    """The response is not in JSON, but in another format."""

    message: ClassVar[str] = "the responder answered in another format"


@dataclass(frozen=True, slots=True)
class MalformedResponse:
    """The response is not JSON, although it says so."""

    message: ClassVar[str] = "the response did not decode"


ResponseError: TypeAlias = HandlerError | Timeout | FormatMismatch | MalformedResponse
"""Why there is no response."""


@dataclass(frozen=True, slots=True)
class Success(Generic[T]):
    """The handler of the subsystem has succeeded; what it did is durable."""

    value: T


@dataclass(frozen=True, slots=True)
class Failure:
    """The subsystem gave no response."""

    error: ResponseError


Outcome: TypeAlias = Success[T] | Failure
"""What came of one subsystem."""

_ANSWER = Struct("=IiII")
_FIXED: dict[int, Failure] = {
    3: Failure(Timeout()),
    4: Failure(FormatMismatch()),
    5: Failure(MalformedResponse()),
}


def pack(
    subsystems: Sequence[str], timeout: Any, record: native.Outgoing
) -> tuple[native.Request, Any]:
    """A request for the library, and what must live as long as it."""
    if isinstance(subsystems, (str, bytes)) or not isinstance(subsystems, Sequence):
        kind = type(subsystems).__name__
        raise TypeError(f"subsystems must be a sequence of str, not {kind}")
    names = []
    for name in subsystems:
        if not isinstance(name, str):
            raise TypeError(f"a subsystem must be a str, not {type(name).__name__}")
        names.append(native.view(name.encode()))
    milliseconds = min(-(-nanoseconds("timeout", timeout) // 1_000_000), 2**63 - 1)
    listed = (native.Bytes * len(names))(*names)
    return native.Request(
        sizeof(native.Request), len(names), listed, milliseconds, pointer(record)
    ), listed


def outcomes(data: bytes) -> dict[str, Outcome[Any]]:
    """Reads the answers of a completion."""
    found: dict[str, Outcome[Any]] = {}
    offset = 0
    while offset < len(data):
        size, kind, name_size, value_size = _ANSWER.unpack_from(data, offset)
        start = offset + _ANSWER.size
        middle = start + name_size
        value = data[middle : middle + value_size]
        found[data[start:middle].decode()] = _outcome(kind, value)
        offset += size
    return found


def _outcome(kind: int, value: bytes) -> Outcome[Any]:
    if kind == 1:
        try:
            return Success(codec.decode(value))
        except (ValueError, RecursionError):
            return Failure(MalformedResponse())
    if kind == 2:
        return Failure(HandlerError(value.decode("utf-8", "replace")))
    return _FIXED.get(kind, _FIXED[5])
