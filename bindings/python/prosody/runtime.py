"""What a process has once: the loaded library, the ports of its event loops, its open clients.

It is made with the first client, so that importing the package before a fork is harmless.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import logging
import os
import select
import threading
import time
import warnings
from ctypes import byref, c_int32, c_void_p
from itertools import count
from typing import TYPE_CHECKING, Any

from prosody import errors, locate, native, record
from prosody.errors import ProsodyError
from prosody.native import Library
from prosody.port import Port
from prosody.queue import Queue

if TYPE_CHECKING:
    from prosody.call import Call
    from prosody.subscription import Subscription

EXIT_LIMIT_S = 5.0
"""How long the end of the process waits for clients that were not shut down."""


class Core:
    """The native part of a client. One that is open when the client goes is shut down first."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.handle = c_void_p()
        self.source = ""
        self.home: Port | None = None  # gets the log lines
        self.subscriptions: set[Subscription] = set()
        self.orphan = False  # the client is gone
        self.ended = False

    def attach(self, port: Port) -> None:
        """Sends the log lines to a port, when their own one is gone."""
        if self.home is None:
            self.home = port
            self.runtime.library.client_log(self.handle, port.handle, None)

    def state(self) -> str:
        """The life cycle's state. Raises when the settings do not allow to consume."""
        state, error = c_int32(), native.make_error()
        status = self.runtime.library.client_state(self.handle, byref(state), byref(error))
        if status:
            raise self.runtime.library.fault(status, error)
        return native.STATES[state.value]

    def shut_down(self, port: Port) -> Call[None]:
        """Shuts the client down; the result ends its subscriptions."""
        library, subscriptions = self.runtime.library, list(self.subscriptions)

        def finish(completion: record.Completion) -> None:
            self.ended = True
            self.runtime.cores.discard(self)
            self.release(subscriptions)
            if self.orphan:
                self.destroy()
            if completion.status != native.OK:
                raise library.exception(*completion[:2], completion.text)

        return port.begin("shutdown", library.client_shutdown, self.handle, finish=finish)

    def running(self) -> bool:
        """Tells whether the client consumes."""
        state = c_int32()
        status = self.runtime.library.client_state(self.handle, byref(state), None)
        return not status and native.STATES[state.value] == "running"

    def release(self, subscriptions: list[Subscription]) -> None:
        """Lets go of subscriptions that are over, and of their handlers.

        One that has not begun stays until the library has answered.
        """
        for subscription in subscriptions:
            if not subscription.starting:
                self.subscriptions.discard(subscription)
                subscription.close_soon()

    def destroy(self) -> None:
        """Frees the native client."""
        self.runtime.cores.discard(self)
        handle, self.handle = self.handle, c_void_p()
        if handle:
            self.runtime.library.client_destroy(handle)


class Limbo(Queue):
    """Takes the answers that no event loop waits for any more."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self.waiting: dict[int, Core | None] = {}
        self._tags = count(1)

    def begin(self, function: Any, handle: Any, core: Core | None) -> None:
        """Starts a call; when it ends, the core is destroyed."""
        tag = next(self._tags)
        self.waiting[tag] = core
        if function(handle, self.handle, tag, None) != native.PENDING:
            self.settle(tag, record.Completion(native.OK, 0, 0, 0, "", b""))

    def settle(self, tag: int, completion: record.Completion) -> None:
        core = self.waiting.pop(tag, None)
        if core is not None:
            core.ended = True
            core.destroy()

    def drain(self) -> None:
        """Handles what is ready."""
        while not self.closed:
            raw, end = self.take()
            if not end:
                return
            offset = 0
            while offset < end:
                size, kind, _, token = record.HEAD.unpack_from(raw, offset)
                self.other(kind, token, raw, offset)
                offset += size

    def wait(self, seconds: float) -> None:
        """Waits until no call is open. A signal is handled at once."""
        poller = select.poll()
        poller.register(self.fd, select.POLLIN)
        deadline = time.monotonic() + seconds
        self.drain()
        while self.waiting and not self.closed:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            poller.poll(left * 1000)
            self.drain()


def _main_interpreter() -> None:
    """Refuses subinterpreters: they share the process, and end when they like."""
    try:
        api = ctypes.pythonapi
        api.PyInterpreterState_Get.restype = ctypes.c_void_p
        api.PyInterpreterState_GetID.restype = ctypes.c_int64
        api.PyInterpreterState_GetID.argtypes = [ctypes.c_void_p]
        number = api.PyInterpreterState_GetID(api.PyInterpreterState_Get())
    except AttributeError:  # not CPython
        return
    if number != 0:
        raise RuntimeError(
            "Prosody cannot be used in a subinterpreter: use the main interpreter, or a process"
        )


class Runtime:
    """Owns the library, the ports and the open clients."""

    def __init__(self) -> None:
        _main_interpreter()
        self.library = Library(locate.find())
        self.forked = False
        self.cores: set[Core] = set()
        self.limbo = Limbo(self)
        self._ports: dict[asyncio.AbstractEventLoop, Port] = {}
        self._lock = threading.RLock()  # a finalizer may run while it is held
        self._local = threading.local()
        self._poisoned = False
        os.register_at_fork(after_in_child=self._mark)
        atexit.register(self._exit)
        telemetry.watch()

    def _mark(self) -> None:
        self.forked = True

    def check(self) -> None:
        """Refuses work in a forked child."""
        if self.forked:
            raise ProsodyError(native.FORKED, "PROSODY_ERR_FORKED", "usage")

    def port(self) -> Port:
        """The port of the running event loop."""
        loop = asyncio.get_running_loop()
        port: Port | None = getattr(self._local, "port", None)
        if port is None or port.loop is not loop or port.closed:
            port = self._local.port = self._find(loop)
        return port

    def _find(self, loop: asyncio.AbstractEventLoop) -> Port:
        with self._lock:
            for old in [port for port in self._ports.values() if port.loop.is_closed()]:
                old.close()
            port = self._ports.get(loop)
            if port is None or port.closed:
                port = self._ports[loop] = Port(self, loop)
        self.limbo.drain()
        return port

    def forget(self, port: Port) -> None:
        """Takes back what a closing port was trusted with."""
        with self._lock:
            if self._ports.get(port.loop) is port:
                del self._ports[port.loop]
        self.redirect(port)
        for core in list(self.cores):
            if core.orphan:
                self.limbo.begin(self.library.client_shutdown, core.handle, core)

    def redirect(self, port: Port) -> None:
        """Lets the clients of a port that closes write their log themselves."""
        for core in list(self.cores):
            if core.home is port:
                core.home = None
                self.library.client_log(core.handle, None, None)

    def unsubscribe(self, handle: Any) -> None:
        """Ends the subscription of a client whose event loop is over."""
        if not self.forked:
            self.limbo.begin(self.library.client_unsubscribe, handle, None)

    def retire(self, core: Core) -> None:
        """Ends a client that was collected. May run in any thread at any moment."""
        if self.forked:
            return
        if core.ended or not core.handle:
            core.destroy()
            return
        warnings.warn(
            "a ProsodyClient was not shut down: await client.shutdown()",
            ResourceWarning,
            stacklevel=2,
        )
        core.orphan = True
        for subscription in list(core.subscriptions):
            try:  # its handlers may end in peace
                subscription.loop.call_soon_threadsafe(core.shut_down, subscription.port)
                return
            except RuntimeError:  # that loop is closed
                continue
        self.limbo.begin(self.library.client_shutdown, core.handle, core)

    def poison(self, text: str) -> None:
        """The library has failed: no call that is open will end by itself."""
        if not self._poisoned:
            self._poisoned = True
            logging.getLogger("prosody").critical("the Prosody library has failed: %s", text)
        first = text.partition("\n")[0]  # a trace may follow
        error = ProsodyError(first, "PROSODY_ERR_POISONED", "fatal")
        for port in list(self._ports.values()):
            if not port.loop.is_closed():
                port.loop.call_soon_threadsafe(port.fail, error)

    def _exit(self) -> None:
        """Leaves the groups at once when the process ends without a shutdown."""
        if self.forked:
            return
        try:
            for core in list(self.cores):
                self.library.client_log(core.handle, self.limbo.handle, None)
                if core not in self.limbo.waiting.values():
                    self.limbo.begin(self.library.client_shutdown, core.handle, core)
                for subscription in list(core.subscriptions):
                    if not subscription.loop.is_running():
                        subscription.closed = True
                        self.library.queue_destroy(subscription.handle)
            self.limbo.wait(EXIT_LIMIT_S)
            telemetry.settle(self, self.library.telemetry_shutdown)
        except (KeyboardInterrupt, errors.ProsodyError):
            pass  # the process is ending already, or the library has told its fault


_lock = threading.Lock()
_current: Runtime | None = None


def known() -> Runtime | None:
    """The runtime of the process, if there is one."""
    return _current


def current() -> Runtime:
    """The runtime of the process, made on first use."""
    global _current
    if _current is None:
        with _lock:
            if _current is None:
                _current = Runtime()
    return _current


from prosody import telemetry  # noqa: E402  (it needs the functions above)
