"""The bridge from the library's log lines to the logging module."""

from __future__ import annotations

import json
import logging
import traceback
from typing import Any

from prosody.record import Line

# What a record has by itself; a field of that name cannot be an extra.
_TAKEN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def emit(line: Line) -> None:
    """Hands a line to the logger of its target. A logger that fails does no harm."""
    try:
        logger = logging.getLogger(line.target or "prosody")
        if not logger.isEnabledFor(line.level):
            return
        fields = _fields(line.fields)
        text = line.text
        if fields:
            text += "".join(f" {name}={_plain(value)}" for name, value in fields.items())
        extra = {f"{name}_" if name in _TAKEN else name: value for name, value in fields.items()}
        record = logger.makeRecord(
            logger.name, line.level, "(prosody)", 0, text, (), None, None, extra
        )
        record.created = line.time_ns / 1e9
        record.msecs = line.time_ns // 1_000_000 % 1000
        logger.handle(record)
    except Exception:
        if logging.raiseExceptions:  # what the logging module does with a failing handler
            traceback.print_exc()


def _plain(value: Any) -> str:
    """A value on one line, so that a key with a line break forges no line of its own."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _fields(encoded: bytes) -> dict[str, Any]:
    if not encoded:
        return {}
    try:
        fields = json.loads(encoded)
    except ValueError:
        return {"fields": encoded.decode("utf-8", "replace")}
    return fields if isinstance(fields, dict) else {"fields": fields}
