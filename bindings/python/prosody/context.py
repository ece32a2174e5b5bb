"""What a handler can ask about its own attempt."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from dataclasses import dataclass

from prosody.call import Call
from prosody.record import FLAG_FAILURE


class DemandKind(str, enum.Enum):
    """Why an event is handled."""

    NORMAL = "normal"
    FAILURE = "failure"


@dataclass(frozen=True)
class Demand:
    """Why an event is handled: for the first time, or again after a failure."""

    kind: DemandKind
    retry: int


_FIRST = Demand(DemandKind.NORMAL, 0)


class Context:
    """The attempt of a handler. It is over when the handler has returned."""

    __slots__ = (
        "_early",
        "_failure",
        "_interrupted",
        "_loop",
        "_over",
        "_probe",
        "_retry",
        "_started",
        "_task",
        "_token",
        "_waiters",
    )

    def __init__(
        self,
        token: int,
        flags: int,
        retry: int,
        loop: asyncio.AbstractEventLoop,
        probe: Callable[[int], int],
    ) -> None:
        self._token = token
        self._failure = flags & FLAG_FAILURE
        self._retry = retry
        self._loop = loop
        self._probe = probe
        self._interrupted = False
        self._over = False
        self._started = False
        self._early: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[None]] | None = None

    @property
    def demand(self) -> Demand:
        """Why the event is handled, and how often it was tried before."""
        if self._failure:
            return Demand(DemandKind.FAILURE, self._retry)
        return _FIRST

    def should_cancel(self) -> bool:
        """Whether the handler is to stop. Also answers while the handler blocks the event loop."""
        return self._interrupted or self._over or self._probe(self._token) != 0

    def on_cancel(self) -> Call[None]:
        """Completes when the handler is to stop, or when the attempt is over."""
        future: asyncio.Future[None] = self._loop.create_future()
        if self._interrupted or self._over:
            future.set_result(None)
        elif self._waiters is None:
            self._waiters = [future]
        else:
            self._waiters = [waiter for waiter in self._waiters if not waiter.done()]
            self._waiters.append(future)
        return Call(future, "on_cancel")

    def _interrupt(self, reason: str) -> None:
        self._interrupted = True
        self._wake()
        if not self._started:
            self._early = reason
        elif self._task is not None:
            self._task.cancel(reason)

    def _end(self) -> None:
        self._over = True
        self._task = None
        if self._waiters is not None:
            self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)
