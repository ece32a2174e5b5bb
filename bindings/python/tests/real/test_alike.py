"""Telemetry records of this package and of `prosody-events`: one story, the same fields."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from other import CASSANDRA, KAFKA, LIMIT_S, Partner

Place = tuple[str, ...]
"""What a record tells of: the key, the type, and the fields whose values are names."""

NAMES = ("timerType", "demandType", "errorCategory")
FORMS = {
    "eventTime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
    "scheduledTime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
}
HANDLED = ["message.sent", "message.dispatched", "message.succeeded"]
REFUSED = ["message.sent", "message.dispatched", "message.failed"]
FIRED = ["timer.scheduled", "timer.dispatched", "timer.succeeded"]
TOLD = {
    "handled": HANDLED,
    "excised": HANDLED,
    "permanent": REFUSED,
    "timer": [*HANDLED, *FIRED],
    "timer-failed": [*HANDLED, "timer.scheduled", "timer.dispatched", "timer.failed"],
    "moved": [*HANDLED, "timer.scheduled", "timer.cancelled"],
    "later": [*HANDLED, *REFUSED, *FIRED],
}
"""What is told of each key. The last one is deferred."""


class Story:
    """What one package tells of a few events."""

    def __init__(self, ours: bool, **options: Any) -> None:
        self.name = f"alike-{uuid.uuid4().hex[:8]}"
        self.told = self.name + "-told"
        self.admin = AdminClient({"bootstrap.servers": KAFKA})
        topics = [NewTopic(name, 1, 1) for name in (self.name, self.told)]
        for future in self.admin.create_topics(topics).values():
            future.result(30)
        self.partner = Partner(
            ours,
            {
                "bootstrap_servers": KAFKA,
                "cassandra_nodes": CASSANDRA,
                "cassandra_keyspace": f"alike_{uuid.uuid4().hex[:8]}",
                "telemetry_topic": self.told,
                "group_id": self.name,
                "source_system": self.name + "-source",
                "subscribed_topics": self.name,
                "defer_base": 1.0,
                **options,
            },
        )
        self.partner.call("subscribe")

    def play(self, key: str) -> None:
        command: dict[str, Any] = {"topic": self.name, "key": key}
        if key == "excised":
            self.partner.call("excise", **command)
        else:
            do = "timer" if key.startswith("timer") else key
            self.partner.call("send", **command, payload={"do": do})

    def records(self, *keys: str) -> list[dict[str, Any]]:
        """The records that were told, once there are those that must be told of keys."""
        missing = {(key, f"prosody.{kind}") for key in keys for kind in TOLD[key]}
        consumer = Consumer({"bootstrap.servers": KAFKA, "group.id": "none"})
        consumer.assign([TopicPartition(self.told, 0, 0)])
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + LIMIT_S
        try:
            while missing:
                assert time.monotonic() < deadline, f"nobody has told of {missing}"
                record = consumer.poll(1)
                if record is None:
                    continue
                assert record.error() is None
                assert record.headers() is None
                one = json.loads(record.value())
                assert record.key().decode() == one["key"]
                found.append(one)
                missing.discard((one["key"], one["type"]))
        finally:
            consumer.close()
        return found

    def shape(self, record: dict[str, Any]) -> Place:
        """The fields of a record: their types, and those values that both are to have."""
        shape: dict[str, Any] = {}
        for field, value in record.items():
            if field in FORMS:
                assert re.fullmatch(FORMS[field], value), (field, value)
            known = field in ("type", "partition", "key", "offset", "hostname", *NAMES)
            shape[field] = value if known else type(value).__name__
        for field in ("topic", "source"):
            assert record[field].startswith(self.name)
            shape[field] = record[field].removeprefix(self.name)
        return tuple(f"{field}={value}" for field, value in sorted(shape.items()))

    def close(self) -> None:
        self.partner.close()
        self.admin.delete_topics([self.name, self.told])


def place(record: dict[str, Any]) -> Place:
    return (record["key"], record["type"], *(record.get(name, "") for name in NAMES))


@pytest.fixture
def stories() -> Iterator[dict[bool, Story]]:
    made = {ours: Story(ours) for ours in (True, False)}
    yield made
    for story in made.values():
        story.close()


def test_telemetry_records_have_the_same_fields(stories: dict[bool, Story]) -> None:
    found: dict[bool, dict[Place, set[Place]]] = {}
    *first, deferred = TOLD
    for story in stories.values():
        for key in first:
            story.play(key)
    for ours, story in stories.items():
        story.records(*first)  # both defer when most has gone well
        story.play(deferred)
        found[ours] = {}
        for record in story.records(*TOLD):
            found[ours].setdefault(place(record), set()).add(story.shape(record))
    assert sorted(found[True]) == sorted(found[False])
    assert found[True] == found[False]
