"""For tests: what clients in mock mode have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable
from ctypes import byref
from datetime import timedelta

from prosody import native, runtime

_MOST_MS = 2**63 - 1


def advance(time: timedelta | float, bootstrap_servers: str | Iterable[str]) -> None:
    """Moves the clock of the clients in mock mode with these servers forward.

    A number means seconds. Timers and retries that become due come now. From there the clock flows
    on; it never goes back. How long handlers and calls take is measured in real time. ValueError:
    there are no such clients, or the time is not within 0 and 100 years.
    """
    if isinstance(time, bool) or not isinstance(time, (int, float, timedelta)):
        raise TypeError(f"expected a timedelta or seconds, not {type(time).__name__}")
    seconds = time.total_seconds() if isinstance(time, timedelta) else time
    if not math.isfinite(seconds):
        raise ValueError("the time is not finite")
    if not isinstance(bootstrap_servers, str):
        bootstrap_servers = ",".join(bootstrap_servers)
    process = runtime.current()
    process.check()
    error = native.make_error()
    milliseconds = max(-1, min(math.ceil(seconds * 1000), _MOST_MS))
    servers = native.view(bootstrap_servers.encode())
    status = process.library.mock_advance(servers, milliseconds, byref(error))
    if status:
        raise process.library.fault(status, error)
