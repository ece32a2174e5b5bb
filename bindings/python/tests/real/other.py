"""A process with one client of this package or of `prosody-events`.

INTEROP_PYTHON is the interpreter of an environment that has `prosody-events`.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KAFKA = os.environ.get("PROSODY_TEST_KAFKA", "localhost:9094")
CASSANDRA = os.environ.get("PROSODY_TEST_CASSANDRA", "localhost:9042")
OTHER = os.environ.get("INTEROP_PYTHON", str(HERE.parents[3] / "build/interop/bin/python"))
LIMIT_S = 120.0


class Partner:
    """A process with one client of either package."""

    def __init__(self, ours: bool, options: dict[str, Any]) -> None:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PROSODY_")
        }
        environment |= {
            "PROSODY_PEER_BIND_ADDRESS": "127.0.0.1:0",
            "PROSODY_PROBE_PORT": "none",
            "PROSODY_LOG": os.environ.get("INTEROP_LOG", "error"),
            "PYTHONPATH": str(HERE.parents[1]) if ours else "",
        }
        self.process = subprocess.Popen(
            [sys.executable if ours else OTHER, str(HERE / "partner.py"), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._answers: queue.Queue[Any] = queue.Queue()
        self.seen: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()
        assert self._answers.get(timeout=LIMIT_S) == "ready"

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.startswith(b"{"):
                continue
            told = json.loads(line)
            if "seen" in told:
                self.seen.append(told["seen"])
            else:
                self._answers.put(told["answer"])

    def call(self, do: str, **command: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **command}).encode() + b"\n")
        self.process.stdin.flush()
        return self._answers.get(timeout=LIMIT_S)

    def saw(self, key: str) -> dict[str, Any]:
        """What the handler saw of a key."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            for one in list(self.seen):
                if one["key"] == key:
                    return one
            time.sleep(0.05)
        raise AssertionError(f"the handler never saw the key {key}")

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
