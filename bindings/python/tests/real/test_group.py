"""Offsets, rebalances, probes and ends of members on a real broker."""

from __future__ import annotations

import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable

import ledger
import pytest
from cluster import Broker, Group, until
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import NewPartitions


def numbered(keys: int, each: int, begin: int = 0) -> list[tuple[str, str]]:
    return [(f"k{key}", str(n)) for n in range(begin, begin + each) for key in range(keys)]


def expect(records: list[tuple[str, str]]) -> set[tuple[str, int]]:
    return {(key, int(value)) for key, value in records}


def handled(group: Group, records: list[tuple[str, str]], limit: float = 40) -> None:
    until(lambda: expect(records) <= ledger.done(ledger.read(group.trace)), "all records", limit)


def probe(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.parametrize("full", [True, False])
def test_rebalance_while_paused(
    broker: Broker, groups: Callable[..., Group], unique: str, full: bool
) -> None:
    """Partitions that pause for backpressure go on with their next owner; nothing is skipped."""
    topic = broker.topic(unique, 4)
    group = groups(topic, max_uncommitted=4 if full else 64)
    records = numbered(40, 5)
    first = group.start(work=0.15 if full else 0.0).wait("assigned")
    broker.produce(topic, records)
    if not full:
        handled(group, records)
    time.sleep(1)
    second = group.start().wait("assigned")
    records += (more := numbered(40, 5, 5))
    broker.produce(topic, more)
    time.sleep(1)
    first.leave()
    handled(group, records)
    until(lambda: broker.lag(group.name, topic, 4) == 0, "lag 0")
    second.leave()
    runs = ledger.read(group.trace)
    assert not ledger.faults(runs, {})
    assert not ledger.repeats(runs)


def test_handlers_over_the_poll_interval(
    broker: Broker, groups: Callable[..., Group], unique: str
) -> None:
    """Polling does not depend on handlers, not even on one that blocks the event loop."""
    topic = broker.topic(unique, 2)
    kafka = {"session.timeout.ms": 3000, "max.poll.interval.ms": 4000}
    waits, blocks = groups(topic, kafka=kafka), groups(topic, kafka=kafka)
    both = [waits.start(slow={"slow": 7.0}), blocks.start(slow={"slow": 7.0}, blocking=True)]
    for member in both:
        member.wait("assigned")
    records = [("slow", "0")]
    broker.produce(topic, records)
    until(lambda: ledger.read(waits.trace) and ledger.read(blocks.trace), "the slow ones")
    for n in range(8):
        records += (more := numbered(5, 1, n))
        broker.produce(topic, more)
        handled(waits, records[1:], 3)
        time.sleep(0.5)
    assert len(ledger.done(ledger.read(waits.trace))) == 40  # the slow one still runs
    for group, member in zip((waits, blocks), both, strict=True):
        handled(group, records)
        until(lambda group=group: broker.lag(group.name, topic, 2) == 0, "lag 0")
        assert "lost" not in member.text()
        runs = ledger.read(group.trace)
        assert not ledger.faults(runs, {})
        assert not ledger.repeats(runs)
        member.leave()


def test_frozen_process(broker: Broker, groups: Callable[..., Group], unique: str) -> None:
    """A member that was frozen past its session comes back by itself."""
    topic = broker.topic(unique, 2)
    group = groups(topic, kafka={"session.timeout.ms": 3000, "max.poll.interval.ms": 4000})
    member = group.start().wait("assigned")
    records = numbered(10, 1)
    broker.produce(topic, records)
    handled(group, records)
    member.signal(signal.SIGSTOP)
    until(lambda: broker.members(group.name) == 0, "the group to notice")
    records += numbered(10, 1, 1)
    broker.produce(topic, records[10:])
    time.sleep(2)
    member.signal(signal.SIGCONT)
    handled(group, records)
    until(lambda: broker.lag(group.name, topic, 2) == 0, "lag 0")
    assert not ledger.faults(ledger.read(group.trace), {})
    member.leave()


def test_topic_made_anew(broker: Broker, groups: Callable[..., Group], unique: str) -> None:
    """A topic that is deleted and made again is read from its beginning; the loss is logged."""
    topic = broker.topic(unique)
    group = groups(topic)
    member = group.start().wait("assigned")
    broker.produce(topic, [("k0", str(n)) for n in range(100)])
    until(lambda: broker.committed(group.name) == {(topic, 0): 100}, "a commit")
    broker.admin.delete_topics([topic])[topic].result(30)
    until(lambda: "does not exist" in member.text(), "a word about it", 60)
    until(lambda: _make(broker, topic), "the topic", 30)
    records = [(key, str(n)) for key in ("k0", "new") for n in range(100, 110)]
    broker.produce(topic, records)
    handled(group, records, 60)
    until(lambda: broker.committed(group.name) == {(topic, 0): 20}, "a commit")
    member.leave()
    broker.produce(topic, [("k0", "110")])
    group.start().wait("assigned")
    handled(group, [("k0", "110")])
    runs = [run.payload for run in ledger.read(group.trace) if run.key == "k0"]
    assert runs == list(range(111))


def _make(broker: Broker, topic: str) -> bool:
    try:
        broker.topic(topic)
    except Exception:
        return False
    return True


def test_partitions_are_added(broker: Broker, groups: Callable[..., Group], unique: str) -> None:
    topic = broker.topic(unique)
    group = groups(topic)
    group.start().wait("assigned")
    broker.produce(topic, [("k0", "0")])
    handled(group, [("k0", "0")])
    broker.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    records = [(f"new{key}", "0") for key in range(30)]
    broker.produce(topic, records)
    handled(group, records)
    assert len({run.partition for run in ledger.read(group.trace)}) == 3
    assert not ledger.repeats(ledger.read(group.trace))


def test_offset_that_is_gone(broker: Broker, groups: Callable[..., Group], unique: str) -> None:
    """A committed offset below the log, or beyond it: reading goes on, commits move forward."""
    topic = broker.topic(unique)
    group = groups(topic)
    place = (topic, 0)
    broker.produce(topic, [("k0", str(n)) for n in range(100)])

    def commit(offset: int) -> None:
        wanted = ConsumerGroupTopicPartitions(group.name, [TopicPartition(topic, 0, offset)])
        broker.admin.alter_consumer_group_offsets([wanted])[group.name].result(30)

    commit(10)
    broker.cut(topic, 50)
    member = group.start().wait("assigned")
    until(lambda: broker.committed(group.name) == {place: 100}, "commits that move on")
    member.leave()
    runs = ledger.read(group.trace)
    assert [run.offset for run in runs] == list(range(50, 100))
    commit(500)
    member = group.start().wait("assigned")
    broker.produce(topic, [("k0", "100")])
    until(lambda: broker.committed(group.name) == {place: 101}, "commits that move on")
    member.leave()
    runs = ledger.read(group.trace)[50:]
    assert [run.offset for run in runs] == [100]  # the others are known to be done
    for one in group.members:
        assert 1 <= one.text().lower().count("offset out of range") <= 3, one.text()


def test_one_group_two_topics(broker: Broker, groups: Callable[..., Group], unique: str) -> None:
    a, b = broker.topic(f"{unique}-a", 2), broker.topic(f"{unique}-b", 2)
    group = groups(a)
    first = group.start().wait("assigned")
    second = group.start(options={"subscribed_topics": b}).wait("assigned")
    count = 0

    def flows() -> None:
        nonlocal count
        records = [(f"k{key}", str(count)) for key in range(10)]
        count += 1
        broker.produce(a, records)
        broker.produce(b, records)
        until(
            lambda: sum(run.done for run in ledger.read(group.trace)) == 20 * count,
            f"round {count}",
        )

    flows()
    first.leave()
    flows_b = group.start().wait("assigned")
    flows()
    second.leave()
    group.start(options={"subscribed_topics": b}).wait("assigned")
    flows()
    flows_b.leave()
    runs = ledger.read(group.trace)
    assert not ledger.repeats(runs)
    assert not ledger.faults(runs, {})


def test_killed_in_a_handler(broker: Broker, groups: Callable[..., Group], unique: str) -> None:
    topic = broker.topic(unique)
    group = groups(topic, kafka={"session.timeout.ms": 3000})
    broker.produce(topic, [("k0", "0")])
    member = group.start(work=30)
    until(lambda: ledger.read(group.trace), "the handler")
    time.sleep(1.5)  # a commit interval and more
    member.kill()
    group.start()
    handled(group, [("k0", "0")])
    runs = ledger.read(group.trace)
    assert [run.done for run in runs] == [False, True]


def test_all_leave_together(broker: Broker, groups: Callable[..., Group], unique: str) -> None:
    """Eight members and one that joins end together, one with a handler that heeds nothing."""
    topic = broker.topic(unique, 8)
    group = groups(topic, shutdown_timeout=4.0)
    members = [group.start(deaf=["deaf"]) for _ in range(5)]
    for member in members:
        member.wait("assigned")
    broker.produce(topic, [("deaf", "0")])
    until(lambda: ledger.read(group.trace), "the handler")
    records = numbered(50, 2)
    broker.produce(topic, records)
    handled(group, records)
    members.append(group.start().wait("subscribed"))
    began = time.monotonic()
    for member in members:
        member.signal(signal.SIGTERM)
    took = [member.left() for member in members]
    assert max(took) < 9
    assert time.monotonic() - began < 14
    assert broker.members(group.name) == 0
    began = time.monotonic()
    group.start().wait("assigned")
    handled(group, [("deaf", "0")])
    assert time.monotonic() - began < 8
    runs = ledger.read(group.trace)
    assert [run.key for run in runs if not run.done] == ["deaf"]
    assert not ledger.repeats(runs)


def test_probes(broker: Broker, groups: Callable[..., Group], unique: str) -> None:
    """A partition that stands still is named; idle and standby members are alive and ready."""
    topic = broker.topic(unique, 2)
    group = groups(topic, stall_threshold=2.0, timeout=60.0)
    ports = [port(), port(), port()]
    members = [group.start(options={"probe_port": number}, slow={"stuck": 5.0}) for number in ports]
    for number in ports:
        until(lambda number=number: probe(number, "readyz")[0] == 200, "readiness")
    time.sleep(2.5)  # idle, one of them on standby
    for number in ports:
        assert probe(number, "livez")[0] == 200
        assert probe(number, "readyz")[0] == 200
    broker.produce(topic, [("stuck", "0")])
    until(lambda: any(probe(number, "livez")[0] == 503 for number in ports), "a red probe", 6)
    answers = [probe(number, "livez") for number in ports]
    assert sorted(answer[0] for answer in answers) == [200, 200, 503]
    (red,) = [text for code, text in answers if code == 503]
    stuck = ledger.read(group.trace)[0]
    assert topic in red
    assert str(stuck.partition) in red
    until(lambda: all(probe(number, "livez")[0] == 200 for number in ports), "green probes", 12)
    for member in members:
        member.leave()


def test_probe_while_the_broker_is_away(
    broker: Broker, groups: Callable[..., Group], unique: str
) -> None:
    topic = broker.topic(unique)
    number = port()
    group = groups(
        topic, stall_threshold=2.0, shutdown_timeout=4.0, probe_port=number,
        kafka={"session.timeout.ms": 3000},
    )  # fmt: skip
    member = group.start().wait("assigned")
    broker.pause()
    for _ in range(12):
        time.sleep(0.5)
        assert probe(number, "livez")[0] == 200
    broker.resume()
    broker.produce(topic, [("k0", "0")])
    handled(group, [("k0", "0")])
    until(lambda: probe(number, "readyz")[0] == 200, "readiness")
    broker.pause()
    member.signal(signal.SIGTERM)
    time.sleep(0.3)
    assert probe(number, "readyz")[0] != 200
    assert member.left() < 4 + 5
    broker.resume()
