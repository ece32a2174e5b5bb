"""A type checker refuses each line that is marked with the code of the error."""

from prosody import Context, EventHandler, ExciseMessage, Message, ProsodyClient, Timer


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
