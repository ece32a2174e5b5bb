"""What the methods of a client return."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Coroutine, Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Result: TypeAlias = Coroutine[Any, Any, T]
"""What can be awaited, once or often, and given to asyncio.gather or create_task."""


class Call(Coroutine[Any, Any, T]):
    """The result of a call that has begun already.

    It is a coroutine to asyncio, so that `await`, `asyncio.gather`, `ensure_future`, `wait_for` and
    `create_task` all take it; it may be awaited again. It may also be dropped: a failure is then
    logged.
    """

    __slots__ = ("_label", "_steps", "_taken", "future")

    def __init__(self, future: asyncio.Future[T], label: str) -> None:
        self.future = future
        self._label = label
        self._taken = False
        self._steps: Any = None

    def __await__(self) -> Generator[Any, Any, T]:
        self._taken = True
        return self.future.__await__()

    def send(self, value: Any, /) -> Any:
        """Goes on as a coroutine."""
        return self._iterator().send(value)

    def throw(self, *error: Any) -> Any:
        """Goes on as a coroutine, with an exception."""
        return self._iterator().throw(*error)

    def close(self) -> None:
        """Ends the coroutine; the call goes on."""
        if self._steps is not None:
            self._steps.close()

    def _iterator(self) -> Any:
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps

    @property
    def __name__(self) -> str:  # asyncio shows it as the name of the coroutine
        return self._label

    def __repr__(self) -> str:
        return f"<Call {self._label} {self.future!r}>"

    def __del__(self) -> None:
        if not self._taken:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.future.add_done_callback(functools.partial(_report, self._label))


class Done(Coroutine[Any, Any, T]):
    """The result of a call that has ended: it can be awaited like a Call, without a future."""

    __slots__ = ("_result",)

    def __init__(self, result: T) -> None:
        self._result = result

    def __await__(self) -> Generator[Any, Any, T]:
        return self._result
        yield  # a generator ends without an exception

    def send(self, value: Any, /) -> Any:
        """Ends as a coroutine."""
        raise StopIteration(self._result)

    def throw(self, error: Any, *rest: Any) -> Any:
        """Raises what is thrown in."""
        if isinstance(error, type):
            error = rest[0] if rest and rest[0] is not None else error()
        raise error

    def close(self) -> None:
        """Does nothing: the call has ended."""

    def __repr__(self) -> str:
        return f"<Done {self._result!r}>"


def _report(label: str, future: asyncio.Future[Any]) -> None:
    error = None if future.cancelled() else future.exception()
    if error is not None:
        logging.getLogger("prosody").error(
            "%s failed, and its result was not awaited: %s", label, error, exc_info=error
        )
