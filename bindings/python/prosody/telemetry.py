"""What goes to an OpenTelemetry collector is sent before the process ends."""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from prosody import native, record, runtime
from prosody.queue import Queue

if TYPE_CHECKING:
    from types import FrameType

    from prosody.runtime import Runtime

LIMIT_S = 6.0
"""The library itself gives up after five."""


class _Answer(Queue):
    """Waits for the end of one call."""

    ended: record.Completion | None = None

    def settle(self, tag: int, completion: record.Completion) -> None:
        self.ended = completion

    def wait(self, seconds: float) -> record.Completion | None:
        poller = select.poll()
        poller.register(self.fd, select.POLLIN)
        deadline = time.monotonic() + seconds
        while self.ended is None and not self.closed:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            poller.poll(left * 1000)
            raw, end = self.take()
            if end:
                _, kind, _, token = record.HEAD.unpack_from(raw, 0)
                self.other(kind, token, raw, 0)
        return self.ended


def settle(process: Runtime, function: Any) -> None:
    """Runs a flush or a shutdown to its end. What it cannot send is a line in the log."""
    if process.forked:
        return
    queue = _Answer(process)
    try:
        if function(queue.handle, 1, None) != native.PENDING:
            return
        completion = queue.wait(LIMIT_S)
    finally:
        queue.close()
    if completion is not None and completion.status != native.OK:
        logging.getLogger("prosody.telemetry").warning("%s", completion.text)


def flush_telemetry() -> None:
    """Sends what has been recorded to the collector; it takes some seconds at most.

    Without an exporter it does nothing.
    """
    process = runtime.known()
    if process is not None:
        settle(process, process.library.telemetry_flush)


def shutdown_telemetry() -> None:
    """Sends what has been recorded and ends the export. Calling it again is fine.

    The end of the process calls it, and SIGTERM where the program has no handler of its own.
    """
    process = runtime.known()
    if process is not None:
        settle(process, process.library.telemetry_shutdown)


def exports() -> bool:
    """Whether the environment names a collector."""
    return any(
        value and name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith("ENDPOINT")
        for name, value in os.environ.items()
    )


def watch() -> None:
    """Lets SIGTERM send what was recorded, where it would end the process at once."""
    if (
        exports()
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ):
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    try:
        shutdown_telemetry()
    finally:
        os.kill(os.getpid(), number)
