"""A small service in mock mode: it sends, handles, excises and sets a timer, and says what happens.

Run it in the repository with `PYTHONPATH=bindings/python python3 bindings/python/examples/demo.py`.
"""

import asyncio
import json
from datetime import datetime, timedelta, timezone

from prosody import Context, EventHandler, ExciseMessage, Message, ProsodyClient, Timer

TOPIC = "orders"


class Orders(EventHandler[dict[str, int], None]):
    def __init__(self, expected: int) -> None:
        self.left = expected
        self.done = asyncio.Event()

    def count(self) -> None:
        self.left -= 1
        if not self.left:
            self.done.set()

    async def on_message(self, context: Context, message: Message[dict[str, int]]) -> None:
        print("message", message.key, json.dumps(message.payload, separators=(",", ":")))
        if message.key == "order-1" and message.payload["n"] == 3:
            await context.schedule(datetime.now(timezone.utc) + timedelta(seconds=1))
        self.count()

    async def on_excise(self, context: Context, message: ExciseMessage) -> None:
        print("excise", message.key)
        self.count()

    async def on_timer(self, context: Context, timer: Timer) -> None:
        print("timer", timer.key)
        self.count()


async def main() -> None:
    client = await ProsodyClient.create(
        mock=True,
        bootstrap_servers="demo",
        group_id="demo",
        source_system="demo-sender",
        subscribed_topics=TOPIC,
    )
    async with client:
        orders = Orders(expected=8)
        await client.subscribe(orders)
        for key in ("order-1", "order-2"):
            for number in (1, 2, 3):
                await client.send(TOPIC, key, {"n": number})
        await client.excise(TOPIC, "order-1")
        await orders.done.wait()
    print("done")


asyncio.run(main())
