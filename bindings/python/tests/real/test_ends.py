"""Programs that are interrupted, or end without a shutdown, while a real broker is there or not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import ledger
import pytest
from cluster import PACKAGE, Broker, Group, options_of, until

PRELUDE = """
import asyncio, json, os, sys, threading, time
from prosody import EventHandler, ProsodyClient

class Handler(EventHandler):
    async def on_message(self, context, message):
        print("message", message.payload, flush=True)
        await work(context, message)
    on_excise = on_timer = on_message

async def work(context, message): pass

def make(**more):
    return ProsodyClient.create(**json.loads(os.environ["OPTIONS"]) | more)
"""


class Program:
    def __init__(self, source: str, options: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", PRELUDE + textwrap.dedent(source)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {
                "PYTHONPATH": os.environ.get("FAULTS_PYTHON", str(PACKAGE)),
                "OPTIONS": json.dumps(options),
            },
        )  # fmt: skip

    def ready(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready"):
                return
        raise AssertionError("it ended before")

    def end(self, limit: float = 30) -> tuple[int, str]:
        try:
            output, _ = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"hangs: {self.process.communicate()[0]}") from None
        return self.process.returncode, output


INTERRUPTED = {
    "create": """
    loop = asyncio.new_event_loop()
    async def main():
        print("ready", flush=True)
        for _ in range(1000):
            client = await make(bootstrap_servers="localhost:1", send_timeout=1.0)
            await client.send("t", "k", 1)
    loop.run_until_complete(main())
    """,
    "send": """
    async def main():
        client = await make(bootstrap_servers="localhost:1", send_timeout=60.0)
        print("ready", flush=True)
        await client.send("t", "k", 1)
    asyncio.run(main())
    """,
    "idle": """
    async def main():
        client = await make()
        await client.subscribe(Handler())
        print("ready", flush=True)
        await asyncio.sleep(60)
    asyncio.run(main())
    """,
    "handler": """
    async def work(context, message):
        print("ready", flush=True)
        await asyncio.sleep(60)
    async def main():
        client = await make()
        await client.subscribe(Handler())
        await asyncio.sleep(60)
    asyncio.run(main())
    """,
    "shutdown": """
    async def work(context, message):
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
    async def main():
        client = await make(shutdown_timeout=60.0)
        await client.subscribe(Handler())
        while not await client.assigned_partition_count():
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        print("ready", flush=True)
        await client.shutdown()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    """,
}


@pytest.mark.parametrize("name", INTERRUPTED)
def test_interrupt(broker: Broker, groups: Callable[..., Group], unique: str, name: str) -> None:
    """Ctrl-C is seen at once; the group is left where the broker answers."""
    broker.topic(unique)
    broker.produce(unique, [("k", "0")])
    group = f"g-{unique}"
    program = Program(INTERRUPTED[name], options_of(broker, group, unique))
    program.ready()
    time.sleep(0.3)
    began = time.monotonic()
    program.process.send_signal(signal.SIGINT)
    code, output = program.end()
    elapsed = time.monotonic() - began
    assert code in (-2, 1, 130), output
    assert "KeyboardInterrupt" in output
    assert "Exception ignored" not in output
    assert "Fatal" not in output
    assert elapsed < 7, output
    if name in ("handler", "idle"):
        assert broker.members(group) == 0
    if name == "handler":  # what was cut off comes again
        follower = groups(unique, group_id=group)
        follower.start()
        until(lambda: ledger.done(ledger.read(follower.trace)) == {("k", 0)}, "the record", 20)


ENDS = {
    "returns": ("", "asyncio.run(main())", 0),
    "raises": ("raise ZeroDivisionError", "asyncio.run(main())", 1),
    "exits": ("sys.exit(7)", "asyncio.run(main())", 7),
    "blocked": ("time.sleep(8)", "asyncio.run(main())", 0),
    "second loop": (
        "globals().update(kept=client)",
        """asyncio.run(main())
    async def again():
        try:
            await kept.send(json.loads(os.environ["OPTIONS"])["subscribed_topics"], "other", 1)
            print("sent again")
        except RuntimeError as error:
            print("refused:", error)
        await kept.shutdown()
    asyncio.run(again())""",
        0,
    ),
    "uvloop": ("", "import uvloop; uvloop.run(main())", 0),
}


@pytest.mark.parametrize("name", ENDS)
def test_end_without_shutdown(
    broker: Broker, groups: Callable[..., Group], unique: str, name: str
) -> None:
    """The program ends in time, leaves its group, and commits nothing that is not done."""
    broker.topic(unique)
    broker.produce(unique, [("done", "0"), ("open", "1")])
    between, end, status = ENDS[name]
    group = f"g-{unique}"
    program = Program(
        f"""
    async def work(context, message):
        if message.key == "open":
            started.set()
            await asyncio.sleep(60)
    async def main():
        global started
        started = asyncio.Event()
        client = await make()
        await client.subscribe(Handler())
        await started.wait()
        await asyncio.sleep(1)
        {between or "pass"}
    {end}
    """,
        options_of(broker, group, unique),
    )
    began = time.monotonic()
    code, output = program.end(40)
    assert code == status, output
    assert time.monotonic() - began < 22, output
    assert "Exception ignored" not in output
    assert len(output.splitlines()) < 60, output
    assert broker.members(group) == 0
    follower = groups(unique, group_id=group)  # what was cut off comes again, and that alone
    follower.start()
    until(lambda: ("open", 1) in ledger.done(ledger.read(follower.trace)), "the open record", 20)
    assert "done" not in {run.key for run in ledger.read(follower.trace)}
    if name == "second loop":
        assert "sent again" in output or "refused:" in output
