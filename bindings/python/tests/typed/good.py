"""A type checker accepts all of this."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

from prosody import (
    AdminClient,
    Context,
    DemandKind,
    EventHandler,
    ExciseMessage,
    Header,
    JSONValue,
    Message,
    ProsodyClient,
    Timer,
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
