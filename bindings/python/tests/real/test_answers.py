"""Requests by gRPC: a responder that rebalances, ports, and a caller that comes back."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from prosody import EventHandler, Failure, ProsodyClient, Success, Timeout

KAFKA = os.environ.get("PROSODY_TEST_KAFKA", "localhost:9094")
CASSANDRA = os.environ.get("PROSODY_TEST_CASSANDRA", "localhost:9042")
TIMEOUT_S = 15.0
GRACE_S = 0.5


@pytest.fixture
def topic() -> Iterator[str]:
    admin = AdminClient({"bootstrap.servers": KAFKA})
    name = f"answers-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 6, 1)])[name].result(30)
    yield name
    admin.delete_topics([name])[name].result(30)


class Echo(EventHandler[Any, Any]):
    """Answers with the payload, once the gate is open."""

    def __init__(self, pause: float = 0.0) -> None:
        self.pause = pause
        self.gate = asyncio.Event()
        self.gate.set()
        self.seen: list[Any] = []

    async def on_message(self, context: Any, message: Any) -> Any:
        self.seen.append(message.payload)
        await asyncio.sleep(self.pause)
        await self.gate.wait()
        return message.payload

    on_excise = on_message

    async def on_timer(self, context: Any, timer: Any) -> None:
        raise NotImplementedError


async def client(_topic: str, **options: Any) -> ProsodyClient:
    given = {
        "bootstrap_servers": KAFKA,
        "cassandra_nodes": CASSANDRA,
        "cassandra_keyspace": "prosody_answers",
        "source_system": "caller",
        "peer_bind_address": "127.0.0.1:0",
        "probe_port": None,
        "telemetry_enabled": False,
        "poll_interval": 0.02,
        "commit_interval": 0.2,
    }
    return await ProsodyClient.create(**{**given, **options})


async def responder(topic: str, handler: Echo, **options: Any) -> ProsodyClient:
    made = await client(topic, group_id=topic, subscribed_topics=topic, subsystem="echo", **options)
    await made.subscribe(handler)
    await assigned(made)
    return made


async def assigned(made: ProsodyClient) -> None:
    async with asyncio.timeout(60):
        while not await made.assigned_partition_count():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def ask(made: ProsodyClient, topic: str, value: Any, timeout: float = TIMEOUT_S) -> Any:
    key = f"key-{value}"
    outcomes = await made.request(topic, key, value, subsystems=["echo"], timeout=timeout)
    return outcomes["echo"]


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def pending(made: ProsodyClient) -> int:
    return int(facts(made)["requests"]["pending"])


def facts(made: ProsodyClient) -> Any:
    library: Any = made._core.runtime.library
    function = library._handle.prosody_client_stats
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_void_p] * 2
    return json.loads(library.text(lambda *given: function(made._core.handle, *given)))


async def test_requests_while_the_responder_rebalances(topic: str) -> None:
    """Each of 200 ends in time with its own answer; nothing waits at the end."""
    async with AsyncExitStack() as stack:
        handlers = [Echo(0.05) for _ in range(3)]
        members = [
            await stack.enter_async_context(await responder(topic, handler))
            for handler in handlers[:2]
        ]
        caller = await stack.enter_async_context(await client(topic))

        async def one(number: int) -> tuple[Any, float]:
            await asyncio.sleep(number % 20 * 0.1)
            begun = time.monotonic()
            return await ask(caller, topic, number), time.monotonic() - begun

        async def rebalance() -> None:
            await asyncio.sleep(0.5)
            third = await stack.enter_async_context(await responder(topic, handlers[2]))
            await members[0].unsubscribe()
            await members[0].subscribe(handlers[0])
            await assigned(members[0])
            await third.unsubscribe()

        moving = asyncio.create_task(rebalance())
        ended = await asyncio.gather(*map(one, range(200)))
        await moving
        for number, (outcome, took) in enumerate(ended):
            assert outcome in (Success(number), Failure(Timeout()))
            assert took <= TIMEOUT_S + GRACE_S
        answered = sum(isinstance(outcome, Success) for outcome, _ in ended)
        assert answered >= 190, f"only {answered} of 200 were answered"
        assert pending(caller) == 0
        assert facts(caller)["requests"]["unknown"] == 0


async def test_an_answer_after_the_deadline_disturbs_nobody(topic: str) -> None:
    handler = Echo()
    async with await responder(topic, handler) as _, await client(topic) as caller:
        handler.gate.clear()
        begun = time.monotonic()
        assert await ask(caller, topic, 1, 0.5) == Failure(Timeout())
        assert time.monotonic() - begun < 0.5 + GRACE_S
        assert await ask(caller, topic, 2, 0) == Failure(Timeout())
        assert await ask(caller, topic, 3, 0.001) == Failure(Timeout())
        handler.gate.set()
        assert await ask(caller, topic, 4) == Success(4)
        async with asyncio.timeout(30):
            while facts(caller)["requests"]["late"] < 1:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert pending(caller) == 0


async def test_a_caller_that_comes_back_on_the_same_port(topic: str) -> None:
    """The answer to the one before does not reach the one after."""
    handler, address = Echo(), free_port()
    async with await responder(topic, handler):
        first = await client(topic, peer_bind_address=address)
        assert await ask(first, topic, "warm") == Success("warm")
        handler.gate.clear()
        waiting = asyncio.ensure_future(ask(first, topic, "old"))
        async with asyncio.timeout(30):
            while "old" not in handler.seen:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await first.shutdown()
        with pytest.raises(RuntimeError, match="shut down"):
            await waiting
        async with await client(topic, peer_bind_address=address) as second:
            handler.gate.set()
            assert await ask(second, topic, "new") == Success("new")
            assert pending(second) == 0


async def test_a_port_that_is_taken(topic: str) -> None:
    """The error names the option and the port; the first client is not disturbed."""
    handler, address = Echo(), free_port()
    async with (
        await responder(topic, handler),
        await client(topic, peer_bind_address=address) as first,
        await client(topic, peer_bind_address=address) as second,
    ):
        assert await ask(first, topic, 1) == Success(1)
        with pytest.raises(RuntimeError, match="peer_bind_address") as raised:
            await ask(second, topic, 2)
        assert address in str(raised.value)
        assert await ask(first, topic, 3) == Success(3)
        await second.send(topic, "k", 4)  # it can still send
        await first.shutdown()
        assert await ask(second, topic, 5) == Success(5)
