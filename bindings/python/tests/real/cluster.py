"""A broker of these tests' own, since they pause and kill it, and members as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1]
SERVICES = PACKAGE.parents[1] / "scripts" / "services"
PORT = os.environ.get("FAULTS_PORT", "9594")


class Broker:
    """A Kafka broker that can be paused, killed and started again."""

    def __init__(self, home: Path) -> None:
        self.address = f"localhost:{PORT}"
        self._environment = os.environ | {
            "PROSODY_SERVICES_HOME": str(home),
            "PROSODY_KAFKA_PORT": PORT,
            "PROSODY_KAFKA_EXTRA": "group.min.session.timeout.ms=3000",
        }
        self._paused = False
        self.admin = AdminClient({"bootstrap.servers": self.address})

    def call(self, *arguments: str) -> str:
        return subprocess.run(
            [str(SERVICES), *arguments], env=self._environment, check=True, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=300,
        ).stdout  # fmt: skip

    def up(self) -> None:
        self.call("up", "kafka")

    def down(self) -> None:
        self.resume()
        self.call("down", "kafka")

    def crash(self) -> None:
        """Kills the broker and starts it again."""
        self.call("restart-kafka", "--kill")

    @property
    def pid(self) -> int:
        return int(self.call("pid", "kafka").split()[0])

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        if self._paused:
            os.kill(self.pid, signal.SIGCONT)
            self._paused = False

    # ---- what others do to the cluster

    def topic(self, name: str, partitions: int = 1, **config: str) -> str:
        made = NewTopic(
            name,
            partitions,
            1,
            config={key.replace("_", "."): value for key, value in config.items()},
        )
        self.admin.create_topics([made])[name].result(30)
        return name

    def produce(self, topic: str, records: list[tuple[Any, Any]], **more: Any) -> None:
        """Writes records as a foreign producer does: key, value and perhaps more."""
        producer = Producer(
            {"bootstrap.servers": self.address, "partitioner": "consistent", "linger.ms": 5}
        )
        errors: list[Any] = []
        for key, value in records:
            producer.produce(
                topic, key=key, value=value, on_delivery=lambda e, _: e and errors.append(e), **more
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        assert not errors

    def advertise(self, port: int | None) -> None:
        """Starts the broker anew, so that clients reach it by another port of this machine."""
        extra = "group.min.session.timeout.ms=3000"
        if port is not None:
            extra += f"\nadvertised.listeners=CLIENTS://localhost:{port}"
        self._environment["PROSODY_KAFKA_EXTRA"] = extra
        self.call("restart-kafka")
        self.admin = AdminClient({"bootstrap.servers": self.address})

    def cut(self, topic: str, offset: int) -> None:
        """Deletes the records of partition 0 below an offset."""
        places = [TopicPartition(topic, 0, offset)]
        for future in self.admin.delete_records(places, operation_timeout=5).values():
            future.result(30)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        future = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[
            group
        ]
        return {
            (p.topic, p.partition): p.offset
            for p in future.result(30).topic_partitions
            if p.offset >= 0
        }

    def ends(self, topic: str, partitions: int) -> dict[tuple[str, int], int]:
        places = {TopicPartition(topic, p): OffsetSpec.latest() for p in range(partitions)}
        return {
            (place.topic, place.partition): future.result(30).offset
            for place, future in self.admin.list_offsets(places).items()
        }

    def lag(self, group: str, topic: str, partitions: int) -> int:
        committed = self.committed(group)
        return sum(
            end - committed.get(place, 0) for place, end in self.ends(topic, partitions).items()
        )

    def members(self, group: str) -> int:
        described = self.admin.describe_consumer_groups([group])[group].result(30)
        return len(described.members)


class Member:
    """A process of member.py."""

    def __init__(self, settings: dict[str, Any], log: Path) -> None:
        self.log = log
        self._out = log.open("ab")
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "member.py"), json.dumps(settings)],
            stdin=subprocess.DEVNULL, stdout=self._out, stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": os.environ.get("FAULTS_PYTHON", str(PACKAGE))},
        )  # fmt: skip
        self.pid = self.process.pid

    def text(self) -> str:
        return self.log.read_text()

    def wait(self, word: str, limit: float = 40) -> Member:
        until(lambda: word in self.text() or self.process.poll() is not None, word, limit)
        assert word in self.text(), self.text()[-3000:]
        return self

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> float:
        """Ends the process with SIGKILL and tells when it was dead."""
        self.process.kill()
        self.process.wait()
        self._out.close()
        return time.monotonic()

    def leave(self, limit: float = 40) -> float:
        """Ends it in order; the seconds that its shutdown took."""
        self.signal(signal.SIGTERM)
        return self.left(limit)

    def left(self, limit: float = 40) -> float:
        self.process.wait(limit)
        self._out.close()
        assert self.process.returncode == 0, self.text()[-3000:]
        return float(self.text().rpartition("left ")[2].split()[0])


class Group:
    """The members of one group with one trace."""

    def __init__(self, broker: Broker, folder: Path, topics: str, **options: Any) -> None:
        self.name = f"group-{uuid.uuid4().hex[:8]}"
        self.broker = broker
        self.trace = folder / f"{self.name}.trace"
        self.trace.touch()
        self._folder = folder
        self._options = options_of(broker, self.name, topics) | options
        self.members: list[Member] = []

    def start(
        self, work: float = 0.0, options: dict[str, Any] | None = None, **more: Any
    ) -> Member:
        settings = {
            "trace": str(self.trace),
            "work": work,
            "options": self._options | (options or {}),
        } | more
        member = Member(settings, self._folder / f"{self.name}-{len(self.members)}.log")
        self.members.append(member)
        return member

    def close(self) -> None:
        for member in self.members:
            if member.process.poll() is None:
                member.kill()


def options_of(broker: Broker, group: str, topics: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.address,
        "group_id": group,
        "source_system": "faults",
        "subscribed_topics": topics,
        "cassandra_nodes": os.environ.get("FAULTS_CASSANDRA", "localhost:9042"),
        "cassandra_keyspace": "prosody_faults",
        "probe_port": None,
        "peer_bind_address": "127.0.0.1:0",
        "telemetry_enabled": False,
        "shutdown_timeout": 10.0,
        "commit_interval": 0.5,
        "kafka": {"session.timeout.ms": 6000},
    }


def until(accept: Callable[[], Any], what: str, limit: float = 40) -> None:
    """Waits for a condition, and fails at the deadline."""
    deadline = time.monotonic() + limit
    while not accept():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)
