"""Mock mode reaches for nothing outside, whatever its options name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, os
from datetime import datetime, timezone, timedelta
import prosody

def reached():
    "What this process has to do with the network."
    tables = [line.split() for name in ("tcp", "tcp6", "udp", "udp6")
              for line in open(f"/proc/self/net/{name}").readlines()[1:]]
    inodes = {fields[9] for fields in tables}
    links = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            pass  # the one that lists
    sockets = [link for link in links if link.startswith("socket:[") and link[8:-1] in inodes]
    tasks = os.listdir("/proc/self/task")
    threads = [open(f"/proc/self/task/{task}/comm").read() for task in tasks]
    return sockets + [name for name in threads if name.startswith("rdk")]

class Handler(prosody.EventHandler):
    def __init__(self):
        self.seen, self.failed = asyncio.Queue(), False

    async def on_message(self, context, message):
        if message.payload == "defer" and not self.failed:
            self.failed = True
            raise ValueError("later")
        if message.payload == "timer":
            await context.schedule(datetime.now(timezone.utc))
        if message.payload == "refuse":
            raise prosody.PermanentError("no")
        self.seen.put_nowait(message.payload)
        return "answer"

    async def on_excise(self, context, message):
        self.seen.put_nowait("excise")

    async def on_timer(self, context, timer):
        self.seen.put_nowait("fired")

async def main():
    common = dict(mock=True, bootstrap_servers="localhost:9094", cassandra_nodes="localhost:9042",
                  cassandra_keyspace="prosody", failure_topic="failures",
                  subscribed_topics="orders", telemetry_enabled=True, probe_port=None)
    handler = Handler()
    first = await prosody.ProsodyClient.create(
        group_id="one", source_system="a", subsystem="bank", **common)
    second = await prosody.ProsodyClient.create(
        group_id="two", source_system="b", mode="low-latency", max_retries=0, **common)
    await first.subscribe(handler)
    await second.subscribe(Handler())
    for payload in ("plain", "plain", "timer", "defer", "refuse"):
        await first.send("orders", payload, payload)
    await first.excise("orders", "gone")
    wanted, seen = {"plain", "timer", "fired", "defer", "excise"}, set()
    while not wanted <= seen:
        seen.add(await asyncio.wait_for(handler.seen.get(), 30))
    answers = await second.request(
        "orders", "ask", "plain", subsystems=["bank"], timeout=timedelta(seconds=30))
    assert "bank" in repr(answers), answers
    assert not reached(), reached()
    await first.shutdown()
    await second.shutdown()
    assert not reached(), reached()
asyncio.run(main())
print("apart")
"""


def test_mock_mode_opens_no_connection() -> None:
    environ = {"PYTHONPATH": str(Path(__file__).resolve().parents[1]), "PATH": "/usr/bin:/bin"}
    out = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, env=environ
    )
    assert out.stdout == "apart\n", out.stderr
