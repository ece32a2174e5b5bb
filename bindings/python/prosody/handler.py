"""The base class of handlers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic

from prosody.context import Context
from prosody.message import ExciseMessage, JSONValue, Message
from prosody.timer import Timer

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Payload = TypeVar("Payload", default=JSONValue)
    Response = TypeVar("Response", default=JSONValue)
else:
    from typing import TypeVar

    Payload = TypeVar("Payload")
    Response = TypeVar("Response")

METHODS = ("on_message", "on_excise", "on_timer")


class EventHandler(ABC, Generic[Payload, Response]):
    """Handles the events of the subscribed topics.

    A method that returns has succeeded. One that raises has failed: the event is tried again,
    unless the exception is permanent. What it returns goes only to a sender that asked for it.
    """

    if not TYPE_CHECKING:

        def __class_getitem__(cls, parameters: Any) -> Any:
            """Lets the response default, as type checkers do."""
            if cls is EventHandler and not isinstance(parameters, tuple):
                parameters = (parameters, Any)
            return super().__class_getitem__(parameters)

    @abstractmethod
    async def on_message(self, context: Context, message: Message[Payload]) -> Response:
        """Handles a message."""

    @abstractmethod
    async def on_excise(self, context: Context, message: ExciseMessage) -> Response:
        """Deletes what is kept for a key."""

    @abstractmethod
    async def on_timer(self, context: Context, timer: Timer) -> None:
        """Handles a timer that has come due."""


def check(handler: object) -> None:
    """TypeError for what cannot handle events."""
    if not isinstance(handler, EventHandler):
        raise TypeError("handler must be a subclass of EventHandler")
    for name in METHODS:
        if not callable(getattr(handler, name, None)):
            raise TypeError(f"handler.{name} must be callable")
