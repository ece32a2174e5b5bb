"""The client: sends records, and hands those of the subscribed topics to a handler."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import byref, c_int32, c_uint32
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

from prosody import codec, native, published, runtime
from prosody.call import Call, Result
from prosody.definition import DequeDefinition, MapDefinition, SetDefinition, ValueDefinition
from prosody.handler import EventHandler, check
from prosody.message import JSONInput
from prosody.options import Options, settings
from prosody.port import Port, outgoing
from prosody.published import PublishedDeque, PublishedMap, PublishedSet, PublishedValue
from prosody.record import Completion
from prosody.request import Outcome
from prosody.subscription import Subscription

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")

State: TypeAlias = Literal["unconfigured", "configured", "running", "shut_down"]
Headers: TypeAlias = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]


class ProsodyClient:
    """A client of Kafka. Make it with `await ProsodyClient.create(...)`.

    Each method starts its work when it is called. What it returns can be awaited, once or often,
    given to asyncio.create_task or gather, or dropped. Any event loop of the process can call;
    handlers run on the loop that subscribed.
    """

    _core: runtime.Core

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("Use await ProsodyClient.create(**configuration)")

    @classmethod
    def create(cls, **configuration: Unpack[Options]) -> Call[Self]:
        """Makes a client and connects it.

        TypeError, ValueError, OverflowError: an option's value is wrong. RuntimeError: an option is
        missing, options contradict each other, or a server cannot be reached.
        """
        process = runtime.current()
        process.check()
        port = process.port()
        library = process.library
        core = runtime.Core(process)
        core.home = port

        def finish(completion: Completion) -> Any:
            if completion.status != native.OK:
                core.ended = True
                core.destroy()
                raise library.exception(*completion[:2], completion.text)
            core.source = library.text(library.client_source, core.handle).decode()
            client = object.__new__(cls)
            client._core = core
            weakref.finalize(client, process.retire, core).atexit = False
            return client

        with settings(library, configuration, "create()") as config:
            call: Call[Self] = port.begin(
                "create", library.client_create, config, byref(core.handle), finish=finish
            )
        if core.handle:
            process.cores.add(core)
        return call

    @property
    def source_system(self) -> str:
        """The name under which the client sends."""
        return self._core.source

    def send(
        self, topic: str, key: str, payload: JSONInput, *, headers: Headers | None = None
    ) -> Call[None]:
        """Sends a message; done when the broker has acknowledged it."""
        core, port = self._enter()
        return port.send(
            "send",
            port.library.client_send,
            core.handle,
            _text("topic", topic),
            _text("key", key),
            codec.encode(payload),
            None if headers is None else _headers(headers),
        )

    def excise(self, topic: str, key: str, *, headers: Headers | None = None) -> Call[None]:
        """Sends a record without payload: the data of its key is to be deleted."""
        core, port = self._enter()
        return port.send(
            "excise",
            port.library.client_excise,
            core.handle,
            _text("topic", topic),
            _text("key", key),
            None,
            None if headers is None else _headers(headers),
        )

    def request(
        self,
        topic: str,
        key: str,
        payload: JSONInput,
        *,
        subsystems: Sequence[str],
        timeout: timedelta | float,
        headers: Headers | None = None,
    ) -> Call[dict[str, Outcome[Any]]]:
        """Sends a message and waits for the response of each subsystem, at most for the timeout.

        A subsystem that fails or stays silent is an outcome. RuntimeError: the request as a whole
        failed, such as the sending. Cancelling the task that waits gives the request up.
        """
        core, port = self._enter()
        return port.request(
            "request",
            port.library.client_request,
            core.handle,
            _record(topic, key, codec.encode(payload), headers),
            subsystems,
            timeout,
        )

    def request_excise(
        self,
        topic: str,
        key: str,
        *,
        subsystems: Sequence[str],
        timeout: timedelta | float,
        headers: Headers | None = None,
    ) -> Call[dict[str, Outcome[Any]]]:
        """Sends a record without payload and waits like `request`."""
        core, port = self._enter()
        return port.request(
            "request_excise",
            port.library.client_request_excise,
            core.handle,
            _record(topic, key, None, headers),
            subsystems,
            timeout,
        )

    def subscribe(self, handler: EventHandler[Any, Any]) -> Call[None]:
        """Starts to consume. The handler runs on this event loop, as many tasks as allowed."""
        self._core.runtime.check()
        check(handler)
        core, port = self._enter()
        library = port.library
        subscription = Subscription(port, core.handle, handler)
        core.subscriptions.add(subscription)

        def finish(completion: Completion) -> None:
            subscription.starting = False
            if completion.status != native.OK or not core.running():  # it may be over again
                core.release([subscription])
            if completion.status != native.OK:
                raise library.exception(*completion[:2], completion.text)

        return port.begin(
            "subscribe",
            library.client_subscribe,
            core.handle,
            finish=finish,
            queue=subscription.handle,
        )

    def unsubscribe(self) -> Call[None]:
        """Stops to consume: handlers end, offsets are committed, the group is left."""
        core, port = self._enter()
        library, subscriptions = port.library, list(core.subscriptions)

        def finish(completion: Completion) -> None:
            if not core.running():
                core.release(subscriptions)
            if completion.status != native.OK:
                raise library.exception(*completion[:2], completion.text)

        return port.begin("unsubscribe", library.client_unsubscribe, core.handle, finish=finish)

    def shutdown(self) -> Call[None]:
        """Unsubscribes and closes the client. Calling it again is fine."""
        core, port = self._enter()
        return core.shut_down(port)

    def consumer_state(self) -> Call[State]:
        """The state of the consumer. RuntimeError: the settings do not allow to consume."""
        core, port = self._enter()
        return port.done("consumer_state", core.state)

    def assigned_partition_count(self) -> Call[int]:
        """How many partitions the client owns; 0 unless it is running."""
        core, port = self._enter()
        number = c_uint32()
        return port.done(
            "assigned_partition_count",
            lambda: self._ask(core.runtime.library.client_partitions, number),
        )

    def is_stalled(self) -> Call[bool]:
        """Whether something has stopped moving for stall_threshold."""
        core, port = self._enter()
        flag = c_int32()
        return port.done(
            "is_stalled", lambda: bool(self._ask(core.runtime.library.client_stalled, flag))
        )

    @overload
    def state(
        self, subsystem: str, definition: ValueDefinition[T]
    ) -> Result[PublishedValue[T]]: ...
    @overload
    def state(self, subsystem: str, definition: MapDefinition[T]) -> Result[PublishedMap[T]]: ...
    @overload
    def state(self, subsystem: str, definition: SetDefinition) -> Result[PublishedSet]: ...
    @overload
    def state(
        self, subsystem: str, definition: DequeDefinition[T]
    ) -> Result[PublishedDeque[T]]: ...
    def state(self, subsystem: str, definition: Any) -> Result[Any]:
        """A reader of what another service publishes. Nothing is read yet."""
        core, port = self._enter()
        return port.done("state", lambda: published.open(core, subsystem, definition))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.shutdown()

    def _enter(self) -> tuple[runtime.Core, Port]:
        core = self._core
        core.runtime.check()
        port = core.runtime.port()
        if core.home is None:
            core.attach(port)
        return core, port

    def _ask(self, function: Callable[..., int], answer: Any) -> Any:
        error = native.make_error()
        status = function(self._core.handle, byref(answer), byref(error))
        if status:
            raise self._core.runtime.library.fault(status, error)
        return answer.value


def _record(topic: str, key: str, payload: bytes | None, headers: Headers | None) -> Any:
    packed = None if headers is None else _headers(headers)
    return outgoing(_text("topic", topic), _text("key", key), payload, packed)


def _text(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    return value.encode()


def _headers(headers: Headers) -> Any:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    packed = []
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"headers: expected pairs of name and value, not {pair!r:.100}")
        name, value = pair
        if not isinstance(name, str):
            raise TypeError(f"a header's name must be a str, not {type(name).__name__}")
        if isinstance(value, str):
            value = value.encode()
        if value is not None and not isinstance(value, bytes):
            raise TypeError(f"a header's value must be bytes or None, not {type(value).__name__}")
        packed.append(native.Header(native.view(name.encode()), native.view(value)))
    return (native.Header * len(packed))(*packed)
