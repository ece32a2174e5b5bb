"""A handler that notes what it gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from prosody import EventHandler


class Recorder(EventHandler[Any, Any]):
    def __init__(self, work: Callable[[Any, Any], Awaitable[Any]] | None = None) -> None:
        self.work = work
        self.events: list[Any] = []
        self.active = self.peak = 0

    async def on_message(self, context: Any, message: Any) -> Any:
        self.events.append(message)
        self.active += 1
        self.peak = max(self.peak, self.active)
        try:
            return await self.work(context, message) if self.work else None
        finally:
            self.active -= 1

    on_excise = on_message

    async def on_timer(self, context: Any, timer: Any) -> None:
        raise NotImplementedError

    @property
    def payloads(self) -> list[Any]:
        return [getattr(event, "payload", "excised") for event in self.events]
