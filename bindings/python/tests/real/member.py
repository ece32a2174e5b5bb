"""One member of a group, as a process that tests may pause and kill.

Each handler notes its begin and end in a file that all members share. Such notes outlive SIGKILL.
SIGTERM ends the member in order.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from typing import Any

from prosody import EventHandler, ProsodyClient


class Handler(EventHandler[Any, Any]):
    def __init__(self, settings: dict[str, Any]) -> None:
        self.trace = os.open(settings["trace"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.work: float = settings.get("work", 0.0)
        self.slow: dict[str, float] = settings.get("slow", {})  # key: seconds
        self.blocking: bool = settings.get("blocking", False)
        self.deaf: list[str] = settings.get("deaf", [])  # keys whose handler heeds no cancellation

    def note(self, mark: str, event: Any) -> None:
        row = [
            time.monotonic(), mark, os.getpid(),
            event.topic, event.partition, event.offset, event.key, getattr(event, "payload", None),
        ]  # fmt: skip
        os.write(self.trace, json.dumps(row).encode() + b"\n")

    async def on_message(self, context: Any, message: Any) -> None:
        self.note("begin", message)
        left = self.slow.get(message.key, self.work)
        if self.blocking:
            time.sleep(left)  # noqa: ASYNC251
        elif message.key in self.deaf:
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    continue
        else:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                self.note("cut", message)
                raise
        self.note("end", message)

    on_excise = on_message

    async def on_timer(self, context: Any, timer: Any) -> None:
        raise NotImplementedError


async def main(settings: dict[str, Any]) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    client = await ProsodyClient.create(**settings["options"])
    await client.subscribe(Handler(settings))
    print("subscribed", flush=True)
    while not stop.is_set() and await client.assigned_partition_count() == 0:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    print("assigned", flush=True)
    await stop.wait()
    began = time.monotonic()
    await client.shutdown()
    print(f"left {time.monotonic() - began:.3f}", flush=True)
    if settings.get("deaf"):
        os._exit(0)  # asyncio.run would wait for such a handler


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(main(json.loads(sys.argv[1])))
