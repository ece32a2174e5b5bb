"""What a handler can ask about its own attempt."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from prosody import timers
from prosody.call import Call
from prosody.definition import (
    DequeDefinition,
    MapDefinition,
    MessageDequeDefinition,
    MessageMapDefinition,
    MessageValueDefinition,
    SetDefinition,
    ValueDefinition,
)
from prosody.demand import Demand, DemandKind
from prosody.errors import ProsodyError
from prosody.handles import DequeState, Handle, MapState, SetState, ValueState, bind
from prosody.message import Message
from prosody.record import FLAG_FAILURE

if TYPE_CHECKING:
    from prosody.port import Port

T = TypeVar("T")
P = TypeVar("P")


_FIRST = Demand(DemandKind.NORMAL, 0)
_OVER = "The context is no longer valid because the event has already been processed"


class Context:
    """The attempt of a handler. It is over when the handler has returned.

    The timers are those of the event's key; one for a second. Times are datetimes with a time zone,
    rounded to the nearest second. Changes are seen by `scheduled()` at once and become durable when
    the handler succeeds; a failed attempt changes nothing. With `immediate=True` a change is
    durable when the call is done, whatever becomes of the handler. Changes of keyed state are
    durable with the handler's success as well.
    """

    __slots__ = (
        "_early",
        "_failure",
        "_handles",
        "_interrupted",
        "_loop",
        "_over",
        "_port",
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
        port: Port,
    ) -> None:
        self._token = token
        self._failure = flags & FLAG_FAILURE
        self._retry = retry
        self._loop = loop
        self._port = port
        self._interrupted = False
        self._over = False
        self._started = False
        self._early: str | None = None
        self._handles: dict[str, Handle] | None = None
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
        if self._interrupted or self._over:
            return True
        return bool(self._port.library.should_cancel(self._token))

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

    @overload
    def state(self, definition: ValueDefinition[T]) -> ValueState[T]: ...
    @overload
    def state(self, definition: MapDefinition[T]) -> MapState[T]: ...
    @overload
    def state(self, definition: SetDefinition) -> SetState: ...
    @overload
    def state(self, definition: DequeDefinition[T]) -> DequeState[T]: ...
    @overload
    def state(self, definition: MessageValueDefinition[P]) -> ValueState[Message[P]]: ...
    @overload
    def state(self, definition: MessageMapDefinition[P]) -> MapState[Message[P]]: ...
    @overload
    def state(self, definition: MessageDequeDefinition[P]) -> DequeState[Message[P]]: ...
    def state(self, definition: Any) -> Any:
        """A collection of the event's key, of those that the client was made with."""
        handles = self._handles
        if handles is not None:
            found = handles.get(getattr(definition, "name", ""))
            if found is not None and found._definition is definition and not self._over:
                return found
        else:
            self._handles = {}
        return bind(self, definition)

    def schedule(self, time: datetime, *, immediate: bool = False) -> Call[None]:
        """Has `on_timer` called at a time; at once when it is past."""
        flags = timers.IMMEDIATE if immediate else 0
        return self._change("schedule", "timer_schedule", timers.second(time), flags)

    def clear_and_schedule(self, time: datetime, *, immediate: bool = False) -> Call[None]:
        """Replaces all timers of the key by one."""
        flags = timers.CLEAR | (timers.IMMEDIATE if immediate else 0)
        return self._change("clear_and_schedule", "timer_schedule", timers.second(time), flags)

    def unschedule(self, time: datetime, *, immediate: bool = False) -> Call[None]:
        """Takes a timer back. One that does not exist is no error."""
        flags = timers.IMMEDIATE if immediate else 0
        return self._change("unschedule", "timer_unschedule", timers.second(time), flags)

    def clear_scheduled(self, *, immediate: bool = False) -> Call[None]:
        """Takes all timers of the key back."""
        flags = timers.IMMEDIATE if immediate else 0
        return self._change("clear_scheduled", "timer_clear", flags)

    def scheduled(self) -> Call[list[datetime]]:
        """The times of the key's timers in UTC, ascending, without the one that fires."""
        if self._over:
            return self._port.done("scheduled", _refuse)
        return timers.scheduled(self._port, self._token)

    def _change(self, label: str, function: str, *arguments: int) -> Call[Any]:
        if self._over:
            return self._port.done(label, _refuse)
        return self._port.begin(
            label, getattr(self._port.library, function), self._token, *arguments
        )

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


def _refuse() -> None:
    raise ProsodyError(_OVER, "PROSODY_ERR_SETTLED", "usage")
