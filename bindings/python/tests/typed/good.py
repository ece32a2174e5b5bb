"""A type checker accepts all of this."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

import prosody
from prosody import (
    AdminClient,
    Context,
    DemandKind,
    DequeDefinition,
    Direction,
    EventHandler,
    ExciseMessage,
    Header,
    JSONValue,
    MapDefinition,
    MapState,
    Message,
    MessageMapDefinition,
    MessageValueDefinition,
    ProsodyClient,
    PublishedValue,
    Scan,
    SetDefinition,
    StoreOutcome,
    Timer,
    ValueDefinition,
    permanent,
    transient,
)


class Order(TypedDict):
    number: int


class Answer(TypedDict):
    ok: bool


class Typed(EventHandler[Order, Answer]):
    async def on_message(self, context: Context, message: Message[Order]) -> Answer:
        number: int = message.payload["number"]
        headers: Sequence[Header] = message.headers
        source: str | None = message.source_system
        kind: DemandKind = context.demand.kind
        return {"ok": bool(number and headers and source and kind) or context.should_cancel()}

    async def on_excise(self, context: Context, message: ExciseMessage) -> Answer:
        await context.on_cancel()
        return {"ok": True}

    async def on_timer(self, context: Context, timer: Timer) -> None:
        later: datetime = timer.time + timedelta(hours=1)
        await context.schedule(later)
        await context.clear_and_schedule(later, immediate=True)
        await asyncio.gather(context.unschedule(later), context.clear_scheduled(immediate=False))
        times: list[datetime] = await asyncio.create_task(context.scheduled())
        assert times[0] < later


COUNT: ValueDefinition[int] = prosody.value("count", ttl=timedelta(days=1), published=True)
ANY = prosody.value("any")
PLAIN = prosody.value[int]("plain")
ORDERS: MapDefinition[Order] = prosody.map("orders", keyset_limit=64, read_cache=False)
TAGS: SetDefinition = prosody.set("tags")
RECENT: DequeDefinition[str] = prosody.deque("recent", capacity=10)
LAST: MessageValueDefinition[Order] = prosody.message_value("last")
OPEN: MessageMapDefinition[Order] = prosody.message_map("open")


class Stateful(EventHandler[Order, None]):
    async def on_message(self, context: Context, message: Message[Order]) -> None:
        count = context.state(COUNT)
        now: int | None = await count.get()
        await count.set((now or 0) + 1)
        outcome: StoreOutcome = await count.commit()
        assert outcome is StoreOutcome.APPLIED

        orders: MapState[Order] = context.state(ORDERS)
        await orders.set("a", message.payload)
        maybe: Order | None = await orders.get("a")
        sure: Order | int = await orders.get("a", 5)
        many: list[Order | None] = await orders.get_many(["a", "b"])
        flags: list[bool] = await orders.contains_many(["a"])
        async for key in orders:
            text: str = key
        async for _key, order in orders.items(Direction.BACKWARD, prefix="a", limit=5):
            number: int = order["number"]
        keys: Scan[str] = orders.keys("backward", from_="b", range=slice("a", None))
        await keys.aclose()
        await asyncio.create_task(orders.remove("a"))

        tags = context.state(TAGS)
        await asyncio.gather(tags.add("x"), tags.discard("y"))
        members: list[str] = [member async for member in tags]

        recent = context.state(RECENT)
        await recent.append("x")
        left: str | None = await recent.popleft()
        size: int = await recent.size()
        values: list[str] = [value async for value in recent.values(range=range(2, 5))]

        await context.state(LAST).set(message)
        last: Message[Order] | None = await context.state(LAST).get()
        await context.state(OPEN).set("a", message)
        assert [maybe, sure, many, flags, text, number, members, left, size, values, last]

    async def on_excise(self, context: Context, message: ExciseMessage) -> None:
        await context.state(COUNT).clear()

    async def on_timer(self, context: Context, timer: Timer) -> None:
        pass


async def readers(client: ProsodyClient) -> None:
    count: PublishedValue[int] = await client.state("orders", COUNT)
    now: int | None = await count.get("key")
    orders = await client.state("orders", ORDERS)
    order: Order | None = await orders.get("key", "a")
    pairs: list[tuple[str, Order]] = [pair async for pair in orders.items("key", limit=1)]
    tags: bool = await (await client.state("orders", TAGS)).contains("key", "x")
    recent: str | None = await (await client.state("orders", RECENT)).peek("key")
    assert [now, order, pairs, tags, recent]


class Plain(EventHandler):
    """Without parameters payload and response are JSON."""

    @permanent(KeyError)
    @transient(OSError, ValueError)
    async def on_message(self, context: Context, message: Message) -> JSONValue:
        return None

    async def on_excise(self, context: Context, message: ExciseMessage) -> JSONValue:
        return [1, "a", {"b": None}]

    async def on_timer(self, context: Context, timer: Timer) -> None:
        pass


class Half(EventHandler[dict[str, int]]):
    """The response defaults."""

    async def on_message(self, context: Context, message: Message[dict[str, int]]) -> JSONValue:
        return message.payload["x"]

    async def on_excise(self, context: Context, message: ExciseMessage) -> JSONValue:
        return None

    async def on_timer(self, context: Context, timer: Timer) -> None:
        pass


async def main(order: Order) -> None:
    client = await ProsodyClient.create(
        bootstrap_servers=["a", "b"],
        subscribed_topics="t",
        timeout=timedelta(seconds=1),
        poll_interval=0.5,
        shutdown_timeout=5,
        mode="low-latency",
        mock=True,
        probe_port=None,
        state_read_cache=False,
        state_collections=[COUNT, ORDERS, TAGS, RECENT, LAST, OPEN],
        kafka={"socket.keepalive.enable": True, "linger.ms": 5},
    )
    async with client as same:
        kept: ProsodyClient = same
        await kept.subscribe(Typed())
        await kept.subscribe(Plain())
        await kept.subscribe(Half())
        await kept.send("t", "k", order)
        await kept.send("t", "k", [1, (2, None)], headers=[("a", b"b"), ("a", None)])
        await kept.send("t", "k", {"a": {1, 2}}, headers={"a": "text"})
        await kept.excise("t", "k", headers=None)
        state: Literal["unconfigured", "configured", "running", "shut_down"]
        state = await kept.consumer_state()
        count: int = await asyncio.create_task(kept.assigned_partition_count())
        stalled: bool = await asyncio.wait_for(kept.is_stalled(), 1)
        both: tuple[int, bool] = await asyncio.gather(
            kept.assigned_partition_count(), kept.is_stalled()
        )
        assert [state, count, stalled, both, kept.source_system]
    admin = AdminClient(bootstrap_servers="a")
    await admin.create_topic("t", partition_count=1, retention=timedelta(hours=1))
    await admin.delete_topic("t")


def anything(message: Message[Any]) -> Any:
    return message.payload
