"""Exceptions of handlers and of the client, and how an exception of a handler is classified."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

TEXT_LIMIT = 16 * 1024
"""Error texts that leave the process are cut after so many bytes."""


class EventHandlerError(Exception, ABC):
    """Base of the exceptions by which a handler says whether trying again makes sense."""

    @property
    @abstractmethod
    def is_permanent(self) -> bool:
        """Whether the same event would fail again for ever."""


class TransientError(EventHandlerError):
    """The event may succeed later: it is tried again."""

    @property
    def is_permanent(self) -> bool:
        return False


class PermanentError(EventHandlerError):
    """The event can never succeed: it is given up."""

    @property
    def is_permanent(self) -> bool:
        return True


class StateError(Exception):
    """Marks the errors of keyed state."""


class PermanentStateError(StateError, PermanentError):
    """An operation on keyed state that can never succeed."""


class TransientStateError(StateError, TransientError):
    """An operation on keyed state that may succeed later."""


class NullValueError(TransientStateError, ValueError):
    """None cannot be stored: clear or remove the entry."""


class ProsodyError(RuntimeError):
    """A call of the client failed.

    `status` is the status of the C interface, such as `PROSODY_ERR_TIMEOUT`. `category` is `usage`,
    `closed`, `transient`, `permanent`, `fatal` or `none`.
    """

    def __init__(self, text: str, status: str = "", category: str = "none") -> None:
        super().__init__(text)
        self.status = status
        self.category = category


def transient(*errors: type[BaseException]) -> Callable[[F], F]:
    """Decorates a function so that the given exceptions leave it as TransientError."""
    return _translate(TransientError, errors)


def permanent(*errors: type[BaseException]) -> Callable[[F], F]:
    """Decorates a function so that the given exceptions leave it as PermanentError."""
    return _translate(PermanentError, errors)


def _translate(
    target: type[EventHandlerError], errors: tuple[type[BaseException], ...]
) -> Callable[[F], F]:
    if not errors or not all(
        isinstance(error, type) and issubclass(error, BaseException) for error in errors
    ):
        raise TypeError("name the exception classes to translate, such as @permanent(ValueError)")

    def decorate(function: F) -> F:
        if inspect.iscoroutinefunction(function):

            async def wait(*args: Any, **kwargs: Any) -> Any:
                try:
                    return await function(*args, **kwargs)
                except errors as error:
                    raise target(text(error)) from error

            return functools.wraps(function)(wait)  # type: ignore[return-value]

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except errors as error:
                raise target(text(error)) from error

        return functools.wraps(function)(call)  # type: ignore[return-value]

    return decorate


def text(error: BaseException) -> str:
    """The text of an exception, also of one whose `__str__` fails."""
    try:
        return str(error)
    except BaseException:
        return "<the exception has no text>"


def describe(error: BaseException) -> bytes:
    """`Type: message` in UTF-8, bounded; what UTF-8 cannot carry is replaced."""
    name, message = type(error).__name__, text(error)[:TEXT_LIMIT]
    line = f"{name}: {message}" if message else name
    encoded = line.encode("utf-8", "replace")
    if len(encoded) > TEXT_LIMIT:
        encoded = encoded[:TEXT_LIMIT].decode("utf-8", "ignore").encode()
    return encoded


def is_permanent(error: BaseException) -> bool:
    """Whether an exception says so of itself; no answer, or a failing one, means no."""
    try:
        return bool(error.is_permanent)  # type: ignore[attr-defined]
    except BaseException:
        return False
