"""What the methods of a client return."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from prosody.record import Completion

T = TypeVar("T")


class Call(asyncio.Future[T], Coroutine[Any, Any, T]):
    """The result of a call that has begun already.

    It is a future, and also a coroutine, so that `await`, `asyncio.gather`, `ensure_future`,
    `wait_for` and `create_task` all take it. It may also be dropped: a failure is then logged.
    """

    finish: Callable[[Completion], T] | None = None
    label = "call"
    _steps: Any = None

    def send(self, value: Any, /) -> Any:
        """Goes on as a coroutine."""
        return self._iterator().send(value)

    def throw(self, *error: Any) -> Any:
        """Goes on as a coroutine, with an exception."""
        return self._iterator().throw(*error)

    def close(self) -> None:
        """Ends the coroutine; the call goes on."""
        self._steps = iter(())

    def _iterator(self) -> Any:
        if self._steps is None:
            self._steps = asyncio.Future.__await__(self)
        return self._steps

    def __del__(self) -> None:
        if getattr(self, "_log_traceback", False):
            error = self.exception()
            logging.getLogger("prosody").error(
                "%s failed, and its result was not awaited: %s", self.label, error, exc_info=error
            )
