"""A service that schedules timers and fails at random, as a process that tests may kill.

It appends what its handlers do to a file. Such notes outlive SIGKILL: a handler that has noted its
end is repeated only when it was killed before its effects were durable.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
import os
import random
import signal
import sys
import time
from typing import Any

from prosody import EventHandler, ProsodyClient, deque, map, value

COUNT = value("count")
SEEN = map("seen")
ORDER = deque("order")
FIRED = map("fired")
COLLECTIONS = [COUNT, SEEN, ORDER, FIRED]


class Service(EventHandler[Any, Any]):
    def __init__(self, settings: dict[str, Any]) -> None:
        self.trace = os.open(settings["trace"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.failing: float = settings["failing"]
        self.work: float = settings["work"]
        self.bogus: int = settings["bogus"]  # a second that must never fire
        self.dump: str | None = settings.get("dump")  # a file; then each event changes collections
        self.chance = random.Random()  # noqa: S311

    def note(self, mark: str, kind: str, key: str, name: int, event: Any) -> None:
        place = [event.partition, event.offset] if kind == "message" else None
        row = [time.monotonic(), time.time(), mark, os.getpid(), kind, key, name, place]
        os.write(self.trace, json.dumps(row).encode() + b"\n")

    async def change(self, context: Any, kind: str, name: int) -> None:
        """Changes of three collections that have to stay together; of a timer one."""
        if kind == "timer":
            fired = context.state(FIRED)
            await fired.set(str(name), (await fired.get(str(name)) or 0) + 1)
            return
        count, seen = context.state(COUNT), context.state(SEEN)
        await count.set((await count.get() or 0) + 1)
        await seen.set(str(name), (await seen.get(str(name)) or 0) + 1)
        await context.state(ORDER).append(name)

    async def report(self, context: Any, key: str) -> None:
        """Writes down what the collections of a key hold."""
        row = {
            "key": key,
            "count": await context.state(COUNT).get(),
            "seen": {k: v async for k, v in context.state(SEEN).items()},
            "order": [n async for n in context.state(ORDER).values()],
            "fired": {k: v async for k, v in context.state(FIRED).items()},
        }
        with open(self.dump or "", "ab", buffering=0) as out:  # noqa: ASYNC230
            out.write(json.dumps(row).encode() + b"\n")

    async def run(self, context: Any, kind: str, key: str, name: int, event: Any, due: Any) -> None:
        self.note("begin", kind, key, name, event)
        try:
            fails = await self.work_on(context, kind, name, due)
        except asyncio.CancelledError:  # the partition is lost
            self.note("cut", kind, key, name, event)
            raise
        self.note("fail" if fails else "end", kind, key, name, event)
        if fails:
            raise RuntimeError("at random")

    async def work_on(self, context: Any, kind: str, name: int, due: Any) -> bool:
        """Does the work of an event. Tells whether it is to fail."""
        if self.dump is not None:
            await self.change(context, kind, name)
        await asyncio.sleep(self.work * self.chance.random())
        fails = self.chance.random() < self.failing
        if fails:
            await context.schedule(datetime.datetime.fromtimestamp(self.bogus, datetime.timezone.utc))
        elif due is not None:
            await context.schedule(datetime.datetime.fromtimestamp(due, datetime.timezone.utc))
        return fails

    async def on_message(self, context: Any, message: Any) -> None:
        payload = message.payload
        if payload.get("report"):
            await self.report(context, message.key)
            return
        await self.run(context, "message", message.key, payload["n"], message, payload["due"])

    async def on_excise(self, context: Any, message: Any) -> None:
        raise NotImplementedError

    async def on_timer(self, context: Any, timer: Any) -> None:
        await self.run(context, "timer", timer.key, round(timer.time.timestamp()), timer, None)


async def main(settings: dict[str, Any]) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    if settings.get("dump"):
        settings["options"]["state_collections"] = COLLECTIONS
    client = await ProsodyClient.create(**settings["options"])
    await client.subscribe(Service(settings))
    print("subscribed", flush=True)
    await stop.wait()
    began = time.monotonic()
    await client.shutdown()
    print(f"left {time.monotonic() - began:.3f}", flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(main(json.loads(sys.argv[1])))
