"""A type checker refuses each line that is marked with the code of the error."""

import prosody
from prosody import (
    Context,
    DequeDefinition,
    EventHandler,
    ExciseMessage,
    MapDefinition,
    Message,
    MessageValueDefinition,
    ProsodyClient,
    SetDefinition,
    Timer,
    ValueDefinition,
)


class Wrong(EventHandler[str, int]):
    async def on_message(self, context: Context, message: Message[int]) -> int:  # error: override
        return 1

    async def on_excise(self, context: Context, message: ExciseMessage) -> str:  # error: override
        return ""

    async def on_timer(self, context: Context, timer: Timer) -> None:
        timer.key = "x"  # error: misc
        await context.schedule(5)  # error: arg-type
        await context.schedule(timer.time, True)  # error: call-arg


class Incomplete(EventHandler[str, int]):
    async def on_message(self, context: Context, message: Message[str]) -> int:
        return message.payload  # error: return-value


async def main(client: ProsodyClient) -> None:
    await ProsodyClient.create(mode="fast")  # error: arg-type
    await ProsodyClient.create(max_concurrency="8")  # error: arg-type
    await ProsodyClient.create(max_concurency=8)  # error: call-arg
    await client.send("t", 5, 1)  # error: arg-type
    await client.send("t", "k", object())  # error: arg-type
    await client.send("t", "k", 1, headers={"a": 5})  # error: arg-type
    await client.subscribe(Incomplete())  # error: abstract
    await client.subscribe(print)  # error: arg-type
    text: str = await client.assigned_partition_count()  # error: assignment
    client.source_system = text  # error: misc


COUNT: ValueDefinition[int] = prosody.value("count")
NAMES: MapDefinition[str] = prosody.map("names")
TAGS: SetDefinition = prosody.set("tags")
QUEUE: DequeDefinition[int] = prosody.deque("queue")
LAST: MessageValueDefinition[int] = prosody.message_value("last")
WRONG: MapDefinition[str] = prosody.value("x")  # error: assignment

prosody.value("x", capacity=5)  # error: call-arg
prosody.value("x", ttl="1h")  # error: arg-type
prosody.deque("x", keyset_limit=5)  # error: call-arg
prosody.message_value("x", published=True)  # error: call-arg


async def state(context: Context, client: ProsodyClient, message: Message[str]) -> None:
    count = context.state(COUNT)
    await count.set("text")  # error: arg-type
    number: int = await count.get()  # error: assignment
    count.size()  # error: attr-defined
    await context.state(NAMES).set("a", 5)  # error: arg-type
    await context.state(NAMES).get(5)  # error: call-overload
    await context.state(TAGS).add(5)  # error: arg-type
    context.state(QUEUE).values(prefix="a")  # error: call-arg
    context.state(QUEUE).values(from_="a")  # error: arg-type
    context.state(NAMES).keys("sideways")  # error: arg-type
    context.state(NAMES).keys(limit="5")  # error: arg-type
    async for value in context.state(QUEUE):
        text: str = value  # error: assignment
    await context.state(LAST).set(message)  # error: arg-type
    await context.state(LAST).set(5)  # error: arg-type
    context.state("count")  # error: call-overload
    await client.state("orders", LAST)  # error: call-overload
    reader = await client.state("orders", COUNT)
    await reader.set("key", 5)  # error: attr-defined
    await reader.get()  # error: call-arg
    assert [number, text]
