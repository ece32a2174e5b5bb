"""Sends each customer one letter a day at most: about all that came since the first message.

The messages wait in a deque, which keeps their places in the log and not their bytes. A timer ends
the window. Both survive a restart, and share the order of their key.

Set PROSODY_BOOTSTRAP_SERVERS, PROSODY_CASSANDRA_NODES, PROSODY_GROUP_ID and
PROSODY_SUBSCRIBED_TOPICS, and run it.
"""

import asyncio
import signal
from datetime import timedelta

from prosody import (
    Context,
    EventHandler,
    ExciseMessage,
    Message,
    ProsodyClient,
    Timer,
    message_deque,
)

WINDOW = timedelta(hours=24)
WAITING = message_deque("waiting", capacity=100)  # the newest hundred


class Letters(EventHandler):
    def __init__(self, client: ProsodyClient) -> None:
        self.client = client

    async def on_message(self, context: Context, message: Message) -> None:
        waiting = context.state(WAITING)
        if await waiting.is_empty():
            await context.schedule(message.timestamp + WINDOW)
        await waiting.append(message)

    async def on_timer(self, context: Context, timer: Timer) -> None:
        waiting = context.state(WAITING)
        orders = [message.payload["order"] async for message in waiting.values()]
        # Should this attempt fail after the send, the next one sends the same id: it goes out once.
        letter = {"id": f"{timer.key} {timer.time.isoformat()}", "orders": orders}
        await self.client.send("letters", timer.key, letter)
        await waiting.clear()

    async def on_excise(self, context: Context, message: ExciseMessage) -> None:
        await context.state(WAITING).clear()
        await context.clear_scheduled()


async def main() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with await ProsodyClient.create(state_collections=[WAITING]) as client:
        await client.subscribe(Letters(client))
        print("collecting until Ctrl-C", flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
