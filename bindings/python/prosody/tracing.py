"""Trace contexts between the OpenTelemetry of the program and the library.

An attempt runs below the span that its record names. Where the program has an OpenTelemetry SDK,
the attempt is a span of it (`on_message`, `on_excise`, `on_timer`): the program's own spans are
its children. Before each call the library is told which span the call belongs to.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from contextvars import ContextVar
from typing import Any, TypeAlias

from prosody import native
from prosody.timer import Timer

Place: TypeAlias = tuple[bytes, bytes]
"""The W3C form of a span: traceparent and tracestate."""


class _Thread(threading.local):
    """What the library was told of a thread."""

    place: Place | None = None


_log = logging.getLogger("prosody.tracing")

on = False
"""Whether any span was ever seen. While it is not, nothing else here costs anything."""

_within: ContextVar[Place | None] = ContextVar("prosody_trace", default=None)
_thread = _Thread()
_modules = sys.modules
_API = "opentelemetry.trace"


def _api() -> Any:
    """The OpenTelemetry API where the program has set up an SDK; else None."""
    api = _modules.get(_API)
    if api is None:
        return None
    proxy = getattr(api, "ProxyTracerProvider", None)
    if proxy is not None and type(api.get_tracer_provider()) is proxy:
        return None
    return api


def look() -> None:
    """Finds out whether the program has set up an SDK meanwhile."""
    global on
    if not on and _API in _modules and _api() is not None:
        on = True


def enter(library: Any) -> None:
    """Tells the library the span that the next calls of this thread belong to."""
    place = _current() if _API in _modules else _within.get()
    if place is not _thread.place and place != _thread.place:
        _thread.place = place
        if place is None:
            library.trace_enter(native.Bytes(), native.Bytes())
        else:
            library.trace_enter(native.view(place[0]), native.view(place[1]))


def _current() -> Place | None:
    api = _api()
    if api is not None:
        found = api.get_current_span().get_span_context()
        if found.is_valid:
            parent = f"00-{found.trace_id:032x}-{found.span_id:016x}-{int(found.trace_flags):02x}"
            state = found.trace_state
            return parent.encode(), state.to_header().encode() if state else b""
    return _within.get()


def attempt(name: str, event: Any, place: Place | None) -> Attempt | None:
    """Begins an attempt below a span. It has a span of its own where the program has an SDK."""
    global on
    on = True
    if place is not None:
        _within.set(place)
    return None if _API not in _modules or _api() is None else Attempt(name, event, place)


class Attempt:
    """The span of an attempt."""

    __slots__ = ("_scope", "_span")

    def __init__(self, name: str, event: Any, place: Place | None) -> None:
        self._span: Any = None
        self._scope: Any = None
        try:
            self._start(name, event, place)
        except Exception:  # an SDK that fails does no harm
            _log.exception("no span of %s", name)

    def _start(self, name: str, event: Any, place: Place | None) -> None:
        api = _api()
        if api is None:
            return
        span = api.get_tracer("prosody.handler").start_span(
            name, context=_parent(api, place), attributes=_about(event)
        )
        self._scope = api.use_span(span, record_exception=False, set_status_on_exception=False)
        self._scope.__enter__()
        self._span = span

    def fail(self, error: BaseException) -> None:
        """Says that the attempt has failed."""
        if self._span is not None and self._span.is_recording():
            api = _modules[_API]
            self._span.record_exception(error)
            self._span.set_status(
                api.Status(api.StatusCode.ERROR, f"{type(error).__name__}: {error}")
            )

    def end(self) -> None:
        """Ends the span."""
        if self._span is not None:
            with contextlib.suppress(ValueError):  # the task was closed in another context
                self._scope.__exit__(None, None, None)
            self._span.end()


def _parent(api: Any, place: Place | None) -> Any:
    """The context of a span elsewhere; an empty one for none."""
    from opentelemetry.context import Context

    if place is None:
        return Context()
    version, trace, span, flags = place[0].split(b"-")[:4]
    del version
    remote = api.SpanContext(
        int(trace, 16),
        int(span, 16),
        is_remote=True,
        trace_flags=api.TraceFlags(int(flags, 16)),
        trace_state=api.TraceState.from_header([place[1].decode()]) if place[1] else None,
    )
    return api.set_span_in_context(api.NonRecordingSpan(remote), Context())


def _about(event: Any) -> dict[str, Any]:
    if type(event) is Timer:
        return {"key": event.key, "timer.fire_time": event.time.isoformat()}
    return {
        "messaging.system": "kafka",
        "topic": event.topic,
        "partition": event.partition,
        "offset": event.offset,
        "key": event.key,
    }
