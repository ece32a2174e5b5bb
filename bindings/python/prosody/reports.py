"""Reports exceptions of handlers to Sentry, when SENTRY_DSN is set and the SDK is installed."""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any

from prosody.errors import EventHandlerError
from prosody.message import ExciseMessage
from prosody.timer import Timer

_log = logging.getLogger("prosody.sentry")
_sdk: Any = None  # False: there is none


def capture(event: Any, error: BaseException) -> None:
    """Reports what a handler has raised. A report that fails does no harm."""
    global _sdk
    if _sdk is None:
        _sdk = _find()
    if not _sdk:
        return
    if isinstance(error, EventHandlerError) and error.__cause__ is not None:
        error = error.__cause__
    try:
        with _sdk.new_scope() as scope:
            scope.set_tag("prosody.event_type", _kind(event))
            scope.set_context("prosody", _about(event))
            _sdk.capture_exception(error)
    except Exception as problem:
        _log.error("the exception could not be reported: %s", problem)


def _find() -> Any:
    if not os.environ.get("SENTRY_DSN"):
        return False
    try:
        sdk = importlib.import_module("sentry_sdk")
    except ImportError:
        _log.error("SENTRY_DSN is set, but the package sentry-sdk is missing")
        return False
    if not sdk.is_initialized():
        sdk.init()  # it reads SENTRY_DSN
    return sdk


def _kind(event: Any) -> str:
    if type(event) is Timer:
        return "timer"
    return "excise" if type(event) is ExciseMessage else "message"


def _about(event: Any) -> dict[str, Any]:
    if type(event) is Timer:
        return {"key": event.key, "time": event.time.isoformat()}
    return {
        "topic": event.topic,
        "partition": event.partition,
        "key": event.key,
        "offset": event.offset,
    }
