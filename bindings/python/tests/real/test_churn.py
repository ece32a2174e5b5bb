"""Members of a group come, go and are killed while records flow."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable

import ledger
from cluster import Broker, Group, until
from confluent_kafka import Producer

SECONDS = float(os.environ.get("CHURN_SECONDS", "30"))
RECORDS = int(os.environ.get("CHURN_RECORDS", "5000"))
KEYS, PARTITIONS = 200, 8


def test_churn(broker: Broker, groups: Callable[..., Group], unique: str) -> None:
    """Every record is handled, in the order of its key, and never two of a key at once."""
    topic = broker.topic(unique, PARTITIONS)
    group = groups(topic, max_concurrency=64, max_uncommitted=256)
    each = RECORDS // KEYS
    sent: list[object] = []

    def send() -> None:
        producer = Producer(
            {"bootstrap.servers": broker.address, "partitioner": "consistent", "linger.ms": 5}
        )
        began = time.monotonic()
        for number in range(each):
            for key in range(KEYS):
                producer.produce(
                    topic, key=f"k{key}", value=str(number), on_delivery=lambda e, _: sent.append(e)
                )
            producer.poll(0)
            time.sleep(max(0.0, began + SECONDS * 0.9 * (number + 1) / each - time.monotonic()))
        producer.flush(30)

    sender = threading.Thread(target=send)
    chance = random.Random(4)  # noqa: S311
    deaths: dict[int, float] = {}
    kills = leaves = 0
    shutdowns: list[float] = []
    alive = [group.start(work=0.01).wait("assigned") for _ in range(3)]
    sender.start()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(chance.uniform(1.0, 5.0))
        act = chance.choice(["join", "leave", "kill", "leave", "kill"])
        if (act == "join" or len(alive) <= 2) and len(alive) < 4:
            alive.append(group.start(work=0.01))
            continue
        one = alive.pop(chance.randrange(len(alive)))
        if act == "kill":
            deaths[one.pid] = one.kill()
            kills += 1
        else:
            shutdowns.append(one.wait("subscribed").leave())
            leaves += 1
    sender.join()
    assert sent == [None] * (each * KEYS)
    expected = {(f"k{key}", number) for key in range(KEYS) for number in range(each)}
    until(lambda: len(ledger.done(ledger.read(group.trace))) >= len(expected), "all records", 90)
    until(lambda: broker.lag(group.name, topic, PARTITIONS) == 0, "lag 0", 20)
    shutdowns += [one.leave() for one in alive]
    assert broker.lag(group.name, topic, PARTITIONS) == 0
    until(lambda: broker.members(group.name) == 0, "the killed members to be forgotten", 20)
    runs = ledger.read(group.trace)
    again = ledger.repeats(runs)
    print(
        f"{len(expected)} records, {len(group.members)} members, {kills} killed, {leaves} left;"
        f" {len(again)} came again; slowest shutdown {max(shutdowns):.2f} s"
    )
    assert ledger.done(runs) == expected
    assert not ledger.faults(runs, deaths)
    assert all("panicked" not in member.text() for member in group.members)
