"""A subscription on the stand-in for the library."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import fake
from conftest import eventually

from prosody import EventHandler
from prosody.port import Port
from prosody.subscription import Subscription

SUCCESS, TRANSIENT, PERMANENT = range(3)


class Script(EventHandler[Any, Any]):
    def __init__(self, work: Callable[[Any, Any], Awaitable[Any]] | None = None) -> None:
        self.work = work
        self.events: list[Any] = []

    async def on_message(self, context: Any, message: Any) -> Any:
        self.events.append(message)
        return await self.work(context, message) if self.work else None

    on_excise = on_message

    async def on_timer(self, context: Any, timer: Any) -> None:
        raise NotImplementedError


class Process:
    """What a port needs of the runtime."""

    def __init__(self) -> None:
        self.library = fake.Library()
        self.forked = False
        self.poisoned: list[str] = []
        self.left: list[Any] = []

    def redirect(self, port: Port) -> None:
        """No client writes a log here."""

    def forget(self, port: Port) -> None:
        pass

    def poison(self, text: str) -> None:
        self.poisoned.append(text)

    def unsubscribe(self, handle: Any) -> None:
        self.left.append(handle)


class Rig:
    def __init__(self, handler: EventHandler[Any, Any]) -> None:
        self.process: Any = Process()
        self.library: fake.Library = self.process.library
        self.port = Port(self.process, asyncio.get_running_loop())
        self.subscription = Subscription(self.port, "client", handler)

    def put(self, *records: bytes) -> None:
        self.library.put(self.subscription, *records)

    async def outcomes(self, count: int) -> list[tuple[int, int, bytes | None, bytes | None]]:
        await eventually(lambda: len(self.library.outcomes) >= count, f"{count} outcomes")
        return sorted(self.library.outcomes)
