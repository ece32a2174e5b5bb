"""Counts the messages of each key, without a database of its own.

The count becomes durable together with the event, so that each message counts once, whatever fails.
Other services read the counts: `client.state("counter", COUNT)`.

Set PROSODY_BOOTSTRAP_SERVERS, PROSODY_CASSANDRA_NODES, PROSODY_GROUP_ID and
PROSODY_SUBSCRIBED_TOPICS, and run it.
"""

import asyncio
import signal

from prosody import Context, EventHandler, ExciseMessage, Message, ProsodyClient, Timer, value

COUNT = value("count", published=True)


class Counter(EventHandler):
    async def on_message(self, context: Context, message: Message) -> None:
        count = context.state(COUNT)
        await count.set((await count.get() or 0) + 1)

    async def on_excise(self, context: Context, message: ExciseMessage) -> None:
        await context.state(COUNT).clear()

    async def on_timer(self, context: Context, timer: Timer) -> None:
        pass  # it sets none


async def main() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with await ProsodyClient.create(subsystem="counter", state_collections=[COUNT]) as client:
        await client.subscribe(Counter())
        print("counting until Ctrl-C", flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
