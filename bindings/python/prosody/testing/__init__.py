"""Tests of handlers: a service in memory, with a clock that the test moves.

    async with Service(Reminders(), topics="orders") as service:
        await service.send("orders", "order-1", {"total": 12.5})
        await service.advance(timedelta(hours=24, seconds=1))
        assert [letter.payload for letter in service.sent("letters")] == [{"order": "order-1"}]

It needs no server, opens no socket and never sleeps. With pytest the fixture `prosody_service`
makes services; see docs/testing.md.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from prosody import mock, published
from prosody.client import Headers, ProsodyClient
from prosody.definition import (
    DequeDefinition,
    MapDefinition,
    MessageDequeDefinition,
    MessageMapDefinition,
    MessageValueDefinition,
    SetDefinition,
    ValueDefinition,
)
from prosody.handler import EventHandler
from prosody.message import ExciseMessage, JSONInput, Message
from prosody.options import Options
from prosody.published import PublishedDeque, PublishedMap, PublishedSet, PublishedValue

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = ["Service"]

T = TypeVar("T")

Handler: TypeAlias = EventHandler[Any, Any] | Callable[..., EventHandler[Any, Any]]

_names = itertools.count()


class Service:
    """A client in mock mode that has subscribed, alone with its broker, store and clock.

    The handler may be a function of the client, for handlers that send. The options are those of
    ProsodyClient.create. A timeout bounds each wait; it is real time.
    """

    client: ProsodyClient
    handler: EventHandler[Any, Any]

    def __init__(
        self,
        handler: Handler,
        topics: str | Iterable[str],
        *,
        timeout_s: float = 10.0,
        **options: Unpack[Options],
    ) -> None:
        if not isinstance(handler, EventHandler) and not callable(handler):
            raise TypeError(
                "handler must be an EventHandler or a function that makes one of the client, "
                f"not {type(handler).__name__}"
            )
        self._make = handler
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        self._timeout_s = timeout_s
        self._servers = f"test-{os.getpid()}-{next(_names)}"
        defaults: dict[str, Any] = {
            "group_id": "service",
            "source_system": "test",
            "shutdown_timeout": 2.0,
        }
        self._options: Any = {
            **defaults,
            **options,
            "mock": True,
            "bootstrap_servers": self._servers,
            "subscribed_topics": self._topics,
        }
        self._ahead = timedelta()
        self.closed = True

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        if not self.closed:
            self.closed = True
            await self.client.shutdown()
            mock.forget(self._servers)

    async def _open(self) -> None:
        self.client = await ProsodyClient.create(**self._options)
        self.closed = False
        make = self._make
        if isinstance(make, EventHandler):
            self.handler = make
        elif isinstance(make, type) and make.__init__ is object.__init__:  # type: ignore[misc]
            self.handler = make()
        else:
            self.handler = make(self.client)
        await self.client.subscribe(self.handler)

    # ---- what happens

    async def send(
        self, topic: str, key: str, payload: JSONInput, *, headers: Headers | None = None
    ) -> None:
        """Sends a message."""
        await self.client.send(topic, key, payload, headers=headers)

    async def excise(self, topic: str, key: str, *, headers: Headers | None = None) -> None:
        """Sends an excise record."""
        await self.client.excise(topic, key, headers=headers)

    async def idle(self) -> None:
        """Waits until nothing is left to do: all is handled, and nothing is due.

        TimeoutError: something is still busy; the text says what.
        """
        try:
            await mock.idle(self._servers, self._timeout_s)
        except RuntimeError as error:
            if getattr(error, "status", "") == "PROSODY_ERR_TIMEOUT":
                raise TimeoutError(str(error)) from None
            raise

    async def advance(self, time: timedelta | float) -> None:
        """Lets time pass, a timedelta or seconds: when idle, moves the clock; then waits again."""
        await self.idle()
        mock.advance(time, self._servers)
        self._ahead += time if isinstance(time, timedelta) else timedelta(seconds=time)
        await self.idle()

    async def restart(self) -> None:
        """Shuts the client down and makes a new one; records, state and timers stay."""
        await self.client.shutdown()
        await self._open()

    # ---- what came of it

    def now(self) -> datetime:
        """The time by the service's clock, in UTC."""
        return datetime.now(timezone.utc) + self._ahead

    def sent(self, topic: str) -> list[Message[Any] | ExciseMessage]:
        """The records of a topic, in the order in which they were sent."""
        return mock.records(self._servers, topic)

    def dead_letters(self) -> list[Message[Any] | ExciseMessage]:
        """The records of the failure topic."""
        topic = self._options.get("failure_topic")
        if topic is None:
            raise ValueError("the service has no failure_topic")
        return self.sent(topic)

    @overload
    def state(
        self, definition: ValueDefinition[T], topic: str | None = None
    ) -> PublishedValue[T]: ...
    @overload
    def state(self, definition: MapDefinition[T], topic: str | None = None) -> PublishedMap[T]: ...
    @overload
    def state(self, definition: SetDefinition, topic: str | None = None) -> PublishedSet: ...
    @overload
    def state(
        self, definition: DequeDefinition[T], topic: str | None = None
    ) -> PublishedDeque[T]: ...
    @overload
    def state(
        self, definition: MessageValueDefinition[T], topic: str | None = None
    ) -> PublishedValue[Message[T]]: ...
    @overload
    def state(
        self, definition: MessageMapDefinition[T], topic: str | None = None
    ) -> PublishedMap[Message[T]]: ...
    @overload
    def state(
        self, definition: MessageDequeDefinition[T], topic: str | None = None
    ) -> PublishedDeque[Message[T]]: ...
    def state(self, definition: Any, topic: str | None = None) -> Any:
        """What is committed of a collection, by key: `await service.state(TOTAL).get("key")`.

        The topic is the first one by default.
        """
        core = self.client._core
        place = self._topics[0] if topic is None else topic
        return published.reader(core, core.runtime.library.mock_reader, place, definition)

    # ---- what goes wrong

    def fail(self, calls: mock.Calls, name: str | None = None, times: int = 1) -> None:
        """Makes the next calls of a kind fail; see prosody.mock.fail."""
        mock.fail(self._servers, calls, name, times)

    @contextmanager
    def failing(self, calls: mock.Calls, name: str | None = None) -> Iterator[None]:
        """Makes all calls of a kind fail for the block: `with service.failing("broker"):`."""
        mock.fail(self._servers, calls, name, -1)
        try:
            yield
        finally:
            mock.fail(self._servers, calls, name, 0)

    def revoke(self) -> None:
        """Takes the partitions away: handlers are asked to stop near the end of shutdown_timeout.

        They come back, and with them what did not end well.
        """
        mock.rebalance(self._servers, self._options["group_id"])

    def lose(self) -> None:
        """Takes the partitions away at once: what handlers still do counts no more."""
        mock.rebalance(self._servers, self._options["group_id"], lost=True)
