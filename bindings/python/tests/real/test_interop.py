"""Services of this package and of `prosody-events`: each asks and answers the other."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from other import CASSANDRA, KAFKA, LIMIT_S, Partner


class Pair:
    """One service of each package, both subscribed to a topic, in one keyspace."""

    def __init__(self, first_ours: bool) -> None:
        name = f"interop-{uuid.uuid4().hex[:8]}"
        self.topic, self.letters = f"{name}-events", f"{name}-failed"
        self.admin = AdminClient({"bootstrap.servers": KAFKA})
        made = self.admin.create_topics([NewTopic(one, 3, 1) for one in (self.topic, self.letters)])
        for future in made.values():
            future.result(30)
        self.partners: dict[bool, Partner] = {}
        self.subsystems = {True: f"{name}-ours", False: f"{name}-other"}
        self.common = {
            "bootstrap_servers": KAFKA,
            "cassandra_nodes": CASSANDRA,
            "cassandra_keyspace": f"interop_{uuid.uuid4().hex[:8]}",
            "telemetry_enabled": False,
            "commit_interval": 0.2,
        }
        for ours in (first_ours, not first_ours):
            self.partners[ours] = Partner(
                ours,
                {
                    **self.common,
                    "group_id": f"{name}-{ours}",
                    "source_system": f"{name}-source-{ours}",
                    "subscribed_topics": self.topic,
                    "subsystem": self.subsystems[ours],
                    "defer_base": 1.0,
                },
            )
            self.partners[ours].call("subscribe")

    def ask(self, ours: bool, payload: Any, of: list[bool], key: str = "") -> dict[str, Any]:
        """The outcomes of a request, by whether the answer is ours."""
        key = key or uuid.uuid4().hex
        outcomes = self.partners[ours].call(
            "request",
            topic=self.topic,
            key=key,
            payload=payload,
            subsystems=[self.subsystems[one] for one in of],
            timeout=40.0,
        )
        return {one: outcomes[self.subsystems[one]] for one in of}

    def records(self, topic: str) -> list[Any]:
        """The records of a topic, as they are in Kafka now."""
        consumer = Consumer({"bootstrap.servers": KAFKA, "group.id": "none"})
        count = 0
        places = []
        for partition in range(3):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)
            count += high - low
            places.append(TopicPartition(topic, partition, low))
        consumer.assign(places)
        found: list[Any] = []
        while len(found) < count:
            record = consumer.poll(LIMIT_S)
            assert record is not None
            assert record.error() is None
            found.append(record)
        consumer.close()
        return found

    def close(self) -> None:
        for partner in self.partners.values():
            partner.close()
        self.admin.delete_topics([self.topic, self.letters])


@pytest.fixture(scope="module", params=[True, False], ids=["ours-first", "other-first"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Who comes first makes the directory that both use."""
    made = Pair(request.param)
    yield made
    made.close()


asking = pytest.mark.parametrize("ours", [True, False], ids=["we-ask", "other-asks"])


@asking
def test_the_other_answers(pair: Pair, ours: bool) -> None:
    value = {"b": [1, None, 2.5], "a": "ü"}
    assert pair.ask(ours, {"value": value}, [not ours]) == {not ours: {"success": value}}
    assert pair.ask(ours, {"value": None}, [not ours]) == {not ours: {"success": None}}


@asking
def test_a_permanent_failure_is_told(pair: Pair, ours: bool) -> None:
    outcome = pair.ask(ours, {"do": "permanent"}, [not ours])[not ours]
    assert outcome == {"failure": "HandlerError", "message": "PermanentError: no such order"}


@asking
def test_a_later_success_is_the_answer(pair: Pair, ours: bool) -> None:
    answer = pair.ask(ours, {"do": "later", "value": 3}, [not ours])
    assert answer == {not ours: {"success": 3}}


@asking
def test_an_excise_request(pair: Pair, ours: bool) -> None:
    key, name = uuid.uuid4().hex, pair.subsystems[not ours]
    outcomes = pair.partners[ours].call(
        "request_excise", topic=pair.topic, key=key, subsystems=[name], timeout=40.0
    )
    assert outcomes == {name: {"success": {"gone": key}}}


@asking
def test_both_answer_one_request(pair: Pair, ours: bool) -> None:
    outcomes = pair.ask(ours, {"value": "both"}, [True, False])
    assert outcomes == {True: {"success": "both"}, False: {"success": "both"}}


@asking
def test_a_large_answer_arrives_or_names_its_size(pair: Pair, ours: bool) -> None:
    outcome = pair.ask(ours, {"do": "large", "size": 3_000_000}, [not ours])[not ours]
    assert outcome == {"success": "x" * 3_000_000}
    if not ours:  # we answer
        outcome = pair.ask(ours, {"do": "large", "size": 6_000_000}, [not ours])[not ours]
        assert outcome["failure"] == "HandlerError"
        assert "6000002" in outcome["message"]


@asking
def test_records_have_the_same_fields(pair: Pair, ours: bool) -> None:
    for do in ("send", "excise"):
        key = uuid.uuid4().hex
        command = {"topic": pair.topic, "key": key}
        if do == "send":
            command["payload"] = {"text": "ü", "number": 2**63, "list": [1.5, None]}
        pair.partners[ours].call(do, **command)
        one, other = pair.partners[True].saw(key), pair.partners[False].saw(key)
        assert one == other
        assert one["asked"] is False
        assert one["payload"] == command.get("payload")


def plain(record: Any) -> dict[str, Any]:
    """The headers of a record, without its trace context; the values of each name in order."""
    found: dict[str, Any] = {}
    for name, value in record.headers() or []:
        if name not in ("traceparent", "tracestate"):
            found.setdefault(name, []).append(value.decode())
    return found


def test_requests_have_the_same_headers(pair: Pair) -> None:
    keys = {ours: uuid.uuid4().hex for ours in (True, False)}
    for ours, key in keys.items():
        pair.ask(ours, {"b": 1, "a": 2}, [True, False], key)
    records = {one.key().decode(): one for one in pair.records(pair.topic)}
    found = {ours: plain(records[key]) for ours, key in keys.items()}
    assert sorted(found[True]) == sorted(found[False])
    assert found[True]["response-awaited"] == found[False]["response-awaited"]
    for name, values in found[True].items():
        assert [len(value) for value in values if name.startswith("response")] == [
            len(value) for value in found[False][name] if name.startswith("response")
        ]
    assert json.loads(records[keys[True]].value()) == json.loads(records[keys[False]].value())


def test_dead_letters_have_the_same_fields(pair: Pair) -> None:
    topic = pair.letters + "-source"
    pair.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    partners = []
    for ours in (True, False):
        options = {
            **pair.common,
            "mode": "low-latency",
            "failure_topic": pair.letters,
            "max_retries": 0,
            "group_id": f"{topic}-{ours}",
            "source_system": "letters",
            "subscribed_topics": topic,
        }
        partners.append(Partner(ours, options))
        partners[-1].call("subscribe")
    for key, do in (("message", "send"), ("excise", "excise")):
        command = {"topic": topic, "key": key}
        pair.partners[True].call(
            do, **command, **({"payload": {"do": "fail"}} if do == "send" else {})
        )
    deadline = time.monotonic() + LIMIT_S
    letters: list[Any] = []
    while len(letters) < 2 and time.monotonic() < deadline:
        letters = [one for one in pair.records(pair.letters) if one.key() == b"message"]
    for partner in partners:
        partner.close()
    first, second = (plain(one) for one in letters)
    assert letters[0].value() == letters[1].value()
    groups = {f"{topic}-{ours}" for ours in (True, False)}
    assert {first.pop("source-group-id")[0], second.pop("source-group-id")[0]} == groups
    assert first == second
    assert first["source-error"] == ["handler error: TransientError: boom"]
