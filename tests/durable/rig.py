"""Processes, topics and lag for the tests of what is durable."""

from __future__ import annotations

import datetime
import json
import os
import random
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

import ledger

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "bindings" / "python"
PARTITIONS = 4


def until(accept: Callable[[], Any], what: str, limit: float) -> float:
    """Waits for a condition, and fails at the deadline. The seconds that it took."""
    began = time.monotonic()
    while not accept():
        assert time.monotonic() - began < limit, f"waited {limit:.0f} s in vain for {what}"
        time.sleep(0.1)
    return time.monotonic() - began


class Worker:
    """A process of worker.py."""

    def __init__(self, settings: dict[str, Any], log: Path) -> None:
        self.log = log
        self._out = log.open("ab")
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), json.dumps(settings)],
            stdin=subprocess.DEVNULL, stdout=self._out, stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": os.environ.get("DURABLE_PYTHON", str(PACKAGE))},
        )  # fmt: skip
        self.pid = self.process.pid

    def text(self) -> str:
        return self.log.read_text()

    def running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> float:
        """Ends the process with SIGKILL and tells when it was dead."""
        self.process.kill()
        self.process.wait()
        self._out.close()
        return time.monotonic()

    def pause(self, seconds: float) -> tuple[float, float]:
        """Stops the process for a time, and tells when."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            ended = time.monotonic()
            self.process.send_signal(signal.SIGCONT)
        return began, ended

    def leave(self) -> None:
        self.process.terminate()
        assert self.process.wait(40) == 0, self.text()[-3000:]
        self._out.close()


class Rig:
    """A topic, a group of workers and their trace."""

    def __init__(self, folder: Path, kafka: str, cassandra: str) -> None:
        self.folder, self.kafka, self.cassandra = folder, kafka, cassandra
        self.topic = self.group = f"durable-{uuid.uuid4().hex[:8]}"
        self.trace = folder / "trace"
        self.trace.touch()
        self.workers: list[Worker] = []
        self.deaths: dict[int, float] = {}
        self.admin = AdminClient({"bootstrap.servers": kafka})
        made = NewTopic(self.topic, PARTITIONS, 1)
        self.admin.create_topics([made])[self.topic].result(30)

    def start(self, instance: str = "", **more: Any) -> Worker:
        """A worker. One with the instance of another that was killed takes its place at once."""
        options = {
            "bootstrap_servers": self.kafka, "cassandra_nodes": self.cassandra, "cassandra_keyspace": "prosody_durable",
            "group_id": self.group, "source_system": "durable", "subscribed_topics": self.topic,
            "probe_port": None, "peer_bind_address": "127.0.0.1:0", "telemetry_enabled": False,
            "shutdown_timeout": 10.0, "commit_interval": 0.5,
            "kafka": {"session.timeout.ms": 6000} | ({"group.instance.id": instance} if instance else {}),
        }  # fmt: skip
        if "dump" in more:  # little memory, so that much is on disk
            options |= {"state_cache_dir": str(self.folder / "cache"), "state_owned_cache_size": "64 KiB"}
        settings = {
            "trace": str(self.trace),
            "failing": 0.1,
            "work": 0.02,
            "bogus": 1_000,
            "options": options,
        } | more
        worker = Worker(settings, self.folder / f"worker-{len(self.workers)}.log")
        self.workers.append(worker)
        return worker

    def kill(self, worker: Worker) -> None:
        assert worker.running(), worker.text()[-3000:]
        self.deaths[worker.pid] = worker.kill()

    def close(self) -> None:
        for worker in self.workers:
            if worker.running():
                worker.kill()

    def lag(self) -> int:
        places = {TopicPartition(self.topic, p): OffsetSpec.latest() for p in range(PARTITIONS)}
        future = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group)])[self.group]
        committed = {p.partition: max(0, p.offset) for p in future.result(30).topic_partitions}
        ends = {p.partition: f.result(30).offset for p, f in self.admin.list_offsets(places).items()}
        return sum(end - committed.get(p, 0) for p, end in ends.items())

    def finish(self, sender: Sender, limit: float) -> float:
        """Waits until all that was sent is done and committed. The seconds that it took."""
        runs: list[ledger.Run] = []

        def missing() -> list[tuple[str, int]]:
            runs[:] = ledger.read(self.trace)
            messages, timers = ledger.done(runs, "message"), ledger.done(runs, "timer")
            return sorted(sender.messages - messages) + sorted(sender.timers - timers)

        try:
            took = until(lambda: not missing(), "all messages and timers", limit)
        except AssertionError:
            print(f"missing {missing()[:20]}")
            raise
        until(lambda: self.lag() == 0, "lag 0", 30)
        return took

    def ask(self, keys: set[str]) -> None:
        """Asks for a report of each key."""
        producer = Producer({"bootstrap.servers": self.kafka, "partitioner": "consistent"})
        for key in sorted(keys):
            producer.produce(self.topic, key=key, value=json.dumps({"report": True}))
        assert producer.flush(60) == 0

    def losses(self, runs: list[ledger.Run]) -> dict[int, list[float]]:
        """When workers were told that a partition is lost, by process, as monotonic time."""
        ahead = runs[0].wall - runs[0].begin
        found: dict[int, list[float]] = {}
        for worker in self.workers:
            lines = [line for line in worker.text().splitlines() if "partition lost" in line]
            moments = [datetime.datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f").timestamp() for line in lines]
            found[worker.pid] = [moment - ahead for moment in moments]
        return found

    def complaints(self) -> list[str]:
        """Lines of the logs that tell of a fault of the library."""
        words = (
            "panicked",
            "without a decision",
            "row of a timer is missing",
            "damaged",
            "is lost",
        )
        return [line for w in self.workers for line in w.text().splitlines() if any(word in line for word in words)]


class Sender:
    """Sends the messages of some keys over a time, a tenth of them twice or more."""

    def __init__(self, rig: Rig, keys: int, each: int) -> None:
        self.rig, self.keys, self.each = rig, keys, each
        self.messages = {(f"k{key}", n) for key in range(keys) for n in range(each)}
        self.timers: set[tuple[str, int]] = set()
        self.errors: list[Any] = []
        self.count = 0

    def run(self, seconds: float) -> None:
        """Each message but every fifth one asks for a timer at a second of its own."""
        producer = Producer({
            "bootstrap.servers": self.rig.kafka, "partitioner": "consistent", "linger.ms": 5, "enable.idempotence": True,
        })  # fmt: skip
        chance = random.Random(7)  # noqa: S311
        began, base = time.monotonic(), int(time.time())
        sent: list[tuple[str, int, int | None]] = []
        for n in range(self.each):
            for key in range(self.keys):
                # About when it is handled, so that timers fire all the time.
                due = base + 2 + int(seconds * n / self.each * 0.8) + n if n % 5 else None
                sent.append((f"k{key}", n, due))
                if due is not None:
                    self.timers.add((f"k{key}", due))
                again = [sent[-1]] + ([chance.choice(sent)] if chance.random() < 0.1 else [])
                for name, number, second in again:
                    value = json.dumps({"id": f"{name}-{number}", "n": number, "due": second})
                    producer.produce(self.rig.topic, key=name, value=value, on_delivery=self._heard)
                    self.count += 1
                producer.poll(0)
            time.sleep(max(0.0, began + seconds * (n + 1) / self.each - time.monotonic()))
        assert producer.flush(120) == 0
        assert not self.errors, self.errors[:3]

    def _heard(self, error: Any, _: Any) -> None:
        if error is not None:
            self.errors.append(error)
