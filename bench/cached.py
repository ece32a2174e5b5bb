#!/usr/bin/env python3
"""Times what a handler does with collections in memory, in mock mode; one JSON line."""

import asyncio
import json
import os
import time
import uuid

os.environ.setdefault("PROSODY_PEER_BIND_ADDRESS", "127.0.0.1:0")
os.environ.setdefault("PROSODY_PROBE_PORT", "none")
os.environ.setdefault("PROSODY_LOG", "error")

from prosody import EventHandler, ProsodyClient, deque, map, set, value  # noqa: A004

COUNTER, SEEN, PEERS, TRAIL = value("counter"), map("seen"), set("peers"), deque("trail")
CALLS, ROUNDS = 2000, 10


class Handler(EventHandler):
    def __init__(self):
        self.found, self.done = {}, asyncio.Event()

    async def on_message(self, context, message):
        counter, seen = context.state(COUNTER), context.state(SEEN)
        await counter.set(1)
        await seen.set("a", 1)
        peers, trail = context.state(PEERS), context.state(TRAIL)
        await peers.add("a")
        await trail.append(1)
        for name, call in (
            ("value_get_us", lambda: counter.get()),
            ("map_get_us", lambda: seen.get("a")),
            ("set_contains_us", lambda: peers.contains("a")),
            ("deque_peek_us", lambda: trail.peek()),
            ("deque_get_us", lambda: trail.get(0)),
            ("value_set_us", lambda: counter.set(2)),
            ("map_set_us", lambda: seen.set("a", 2)),
            ("set_add_us", lambda: peers.add("a")),
        ):
            times = []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                for _ in range(CALLS):
                    await call()
                times.append((time.perf_counter() - began) / CALLS * 1e6)
            self.found[name] = round(min(times), 2)
        self.done.set()

    async def on_excise(self, context, message):
        raise NotImplementedError

    async def on_timer(self, context, timer):
        raise NotImplementedError


async def main():
    handler = Handler()
    client = await ProsodyClient.create(
        bootstrap_servers="cached", mock=True, group_id=uuid.uuid4().hex, source_system="bench", subscribed_topics="cached",
        state_collections=[COUNTER, SEEN, PEERS, TRAIL], telemetry_enabled=False,
    )
    await client.subscribe(handler)
    await client.send("cached", "key", {"n": 1})
    await handler.done.wait()
    print(json.dumps({"scenario": "cached", **handler.found}), flush=True)
    await client.shutdown()


asyncio.run(main())
