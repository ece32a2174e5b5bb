"""Raw Kafka access for the Ruby suite, as a foreign program has it. Keys and values are base64 in JSON.

usage: raw.py SERVERS produce TOPIC PARTITION <records    raw.py SERVERS records TOPIC COUNT
"""

import base64
import json
import sys
import time
import uuid
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition


def decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def encode(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def produce(servers: str, topic: str, partition: str) -> None:
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    place = {} if partition == "-1" else {"partition": int(partition)}
    for key, value, headers in json.load(sys.stdin):
        pairs = [(name, decode(text)) for name, text in headers]
        producer.produce(
            topic,
            key=decode(key),
            value=decode(value),
            headers=pairs or None,
            on_delivery=lambda error, _: error and errors.append(error),
            **place,
        )
    left = producer.flush(30)
    if errors or left:
        raise SystemExit(f"raw produce failed: {errors} {left}")
    print("[]")


def records(servers: str, topic: str, count: str) -> None:
    group = f"raw-{uuid.uuid4()}"
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    found: list[Any] = []
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    deadline = time.monotonic() + 40
    while len(found) < int(count) and time.monotonic() < deadline:
        record = consumer.poll(0.2)
        if record is not None and not record.error():
            headers = [[name, encode(value)] for name, value in record.headers() or []]
            found.append([encode(record.key()), encode(record.value()), headers])
    consumer.close()
    if len(found) < int(count):
        raise SystemExit(f"{len(found)} of {count} records on {topic}")
    print(json.dumps(found))


{"produce": produce, "records": records}[sys.argv[2]](sys.argv[1], *sys.argv[3:])
