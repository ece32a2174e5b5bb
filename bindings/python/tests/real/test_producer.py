"""Sends to a broker that refuses, is away, is killed, or hangs up."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import threading
import time
from typing import Any

import pytest
from cluster import Broker, options_of
from confluent_kafka import Consumer, TopicPartition

from prosody import EventHandler, ProsodyClient


class Silent(EventHandler[Any, Any]):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def on_message(self, context: Any, message: Any) -> None:
        self.seen.append(message.payload)

    on_excise = on_message

    async def on_timer(self, context: Any, timer: Any) -> None:
        raise NotImplementedError


def log_of(broker: Broker, topic: str, partitions: int = 1) -> list[tuple[str, bytes]]:
    """All records of a topic: key and value in log order for each partition."""
    consumer = Consumer(
        {"bootstrap.servers": broker.address, "group.id": "reader", "enable.auto.commit": False}
    )
    ends = broker.ends(topic, partitions)
    consumer.assign([TopicPartition(topic, place, 0) for _, place in ends])
    found, left = [], sum(ends.values())
    while len(found) < left:
        for record in consumer.consume(left - len(found), 5):
            assert record.error() is None, record.error()
            found.append((record.key().decode(), record.value()))
    consumer.close()
    return found


async def client_of(broker: Broker, topic: str, **more: Any) -> ProsodyClient:
    return await ProsodyClient.create(**options_of(broker, f"g-{topic}", topic) | more)


async def test_large_record_fails_alone(broker: Broker, unique: str) -> None:
    broker.topic(unique, 2, max_message_bytes="10240")
    async with await client_of(broker, unique) as client:
        calls: list[Any] = []
        large: list[Any] = []
        for n in range(200):
            calls.append(client.send(unique, f"k{n % 10}", [n, "x" * 500]))
            if n in (60, 140):
                size = 50_000 if n == 60 else 2_000_000
                large.append(client.send(unique, f"k{n % 10}", [n, os.urandom(size // 2).hex()]))
        began = time.monotonic()
        for call in large:
            with pytest.raises(RuntimeError, match="large") as refusal:
                await call
            assert refusal.value.category == "permanent"
        assert time.monotonic() - began < 5
        await asyncio.gather(*calls)
    found = log_of(broker, unique, 2)
    assert len(found) == 200
    for key in range(10):
        numbers = [int(value[1:].split(b",")[0]) for name, value in found if name == f"k{key}"]
        assert numbers == list(range(key, 200, 10))


async def test_paused_broker(broker: Broker, unique: str) -> None:
    """Each send ends by its time-out, cancelled or not, and the shutdown in its budget."""
    broker.topic(unique)
    client = await client_of(broker, unique, send_timeout=1.0, shutdown_timeout=3.0)
    await client.subscribe(Silent())
    await client.send(unique, "k", 0)
    broker.pause()
    began = time.monotonic()

    async def send(n: int) -> float:
        with pytest.raises(RuntimeError, match="timed out"):
            await client.send(unique, f"k{n}", n)
        return time.monotonic() - began

    tasks = [asyncio.create_task(send(n)) for n in range(500)]
    await asyncio.sleep(0.2)
    for task in tasks[::2]:
        task.cancel()
    assert max(await asyncio.gather(*tasks[1::2])) < 2.2
    assert time.monotonic() - began < 2.5
    began = time.monotonic()
    await client.shutdown()
    assert time.monotonic() - began < 3 + 5
    broker.resume()
    async with await client_of(broker, unique) as client:
        await client.send(unique, "k", 1)


@pytest.mark.parametrize("servers", ["", "nohost.invalid:1", "localhost:1"])
async def test_wrong_servers(broker: Broker, unique: str, servers: str) -> None:
    """Nothing is silent about a broker that is not there."""
    if not servers:
        with pytest.raises((ValueError, RuntimeError), match="bootstrap_servers"):
            await client_of(broker, unique, bootstrap_servers=servers)
        return
    client = await client_of(broker, unique, bootstrap_servers=servers, send_timeout=2.0)
    began = time.monotonic()
    try:
        with pytest.raises(
            RuntimeError, match=servers.split(":")[0].replace("localhost", "127.0.0.1|localhost")
        ):
            await client.send(unique, "k", 1)
        assert time.monotonic() - began < 5
        with pytest.raises(RuntimeError):
            await client.subscribe(Silent())
        assert time.monotonic() - began < 20
    finally:
        await client.shutdown()
    assert time.monotonic() - began < 30


async def test_broker_killed_under_load(broker: Broker, unique: str) -> None:
    """The broker is killed and started again: nothing is lost, doubled or out of order."""
    broker.topic(unique, 2)
    client = await client_of(broker, unique, send_timeout=60.0)
    handler = Silent()
    await client.subscribe(handler)
    calls: list[Any] = []
    restarted: asyncio.Future[Any] | None = None
    n = 0
    while restarted is None or not restarted.done() or n < 3000:
        calls.append(client.send(unique, f"k{n % 7}", n))
        n += 1
        if n == 500:
            restarted = asyncio.get_running_loop().run_in_executor(None, broker.crash)
        await asyncio.sleep(0.002)
    await restarted
    await asyncio.gather(*calls)
    for _ in range(300):
        if set(handler.seen) == set(range(n)):
            break
        await asyncio.sleep(0.1)
    assert set(handler.seen) == set(range(n))
    await client.shutdown()
    found = log_of(broker, unique, 2)
    assert len(found) == n
    for key in range(7):
        assert [int(value) for name, value in found if name == f"k{key}"] == list(range(key, n, 7))
    assert len(handler.seen) == n


class Proxy:
    """Hands bytes on to the broker, and hangs up after so many pieces."""

    def __init__(self, target: tuple[str, int], pieces: int) -> None:
        self._target, self._pieces = target, pieces
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pump, args=(near,), daemon=True).start()

    def _pump(self, near: socket.socket) -> None:
        count = 0
        try:
            with near, socket.create_connection(self._target) as far:
                while True:
                    for one in select.select([near, far], [], [])[0]:
                        data = one.recv(65536)
                        count += 1
                        # Answers of the broker get lost: what was written is written again.
                        if not data or (one is far and self._pieces and count > self._pieces):
                            self.cuts += bool(data)
                            return
                        (far if one is near else near).sendall(data)
        except OSError:
            return

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def flaky(broker: Broker) -> Any:
    proxy = Proxy(("127.0.0.1", int(broker.address.split(":")[1])), 20)
    broker.advertise(proxy.port)
    try:
        yield proxy
    finally:
        proxy.close()
        broker.advertise(None)


async def test_connections_are_cut(broker: Broker, flaky: Proxy, unique: str) -> None:
    """Retries neither reorder nor double the records of a key."""
    broker.topic(unique)
    async with await client_of(broker, unique, send_timeout=60.0) as client:
        calls = []
        for n in range(1000):
            calls.append(client.send(unique, "k", n))
            if n % 3 == 0:
                await asyncio.sleep(0.003)
        await asyncio.gather(*calls)
    assert flaky.cuts > 3
    assert [int(value) for _, value in log_of(broker, unique)] == list(range(1000))
