"""Leads orders from placed to paid to shipped. One that nobody pays within 15 minutes lapses.

A shop asks for each step with a request, and gets the answer once the step is durable:

    await client.request("orders", "order-1", {"step": "paid"}, subsystems=["orders"], timeout=5)

The support desk reads the status, which is published:

    desk = await client.state("orders", STATUS)
    await desk.get("order-1")

An excise record deletes what is kept of an order.

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
    PermanentError,
    ProsodyClient,
    Timer,
    value,
)

STATUS = value("status", published=True)
PATIENCE = timedelta(minutes=15)
BEFORE = {"placed": None, "paid": "placed", "shipped": "paid"}


class Orders(EventHandler):
    async def on_message(self, context: Context, message: Message) -> dict[str, str]:
        status, step = context.state(STATUS), message.payload["step"]
        present = await status.get()
        if step not in BEFORE or present != BEFORE[step]:
            # No retry helps. A shop that waits gets this text.
            raise PermanentError(f"{message.key} is {present or 'unknown'}: it cannot be {step}")
        await status.set(step)
        if step == "placed":
            await context.schedule(message.timestamp + PATIENCE)
        else:
            await context.clear_scheduled()
        return {"status": step}

    async def on_timer(self, context: Context, timer: Timer) -> None:
        await context.state(STATUS).set("lapsed")

    async def on_excise(self, context: Context, message: ExciseMessage) -> None:
        await context.state(STATUS).clear()
        await context.clear_scheduled()


async def main() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with await ProsodyClient.create(subsystem="orders", state_collections=[STATUS]) as client:
        await client.subscribe(Orders())
        print("taking orders until Ctrl-C", flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
