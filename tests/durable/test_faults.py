"""Cassandra behind a bad line, and a broker that stands still."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ledger
from proxy import Proxy
from rig import HERE, Rig, Sender, until

SECONDS = float(os.environ.get("FAULT_SECONDS", "25"))
KEYS = 40
RECOVERY = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """A broker that may be paused: its address and its process."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = str(one.getsockname()[1])
    services = str(HERE.parents[1] / "scripts" / "services")
    environment = os.environ | {
        "PROSODY_SERVICES_HOME": os.environ.get("FAULT_SERVICES", str(tmp_path_factory.mktemp("services"))),
        "PROSODY_KAFKA_PORT": port,
    }

    def call(*arguments: str) -> str:
        return subprocess.run(
            [services, *arguments, "kafka"], env=environment, check=True, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=300,
        ).stdout  # fmt: skip

    call("up")
    try:
        yield f"localhost:{port}", int(call("pid").split()[0])
    finally:
        call("wipe")


@pytest.fixture
def line() -> Iterator[Proxy]:
    host, _, port = os.environ.get("DURABLE_CASSANDRA", "127.0.0.1:9042").replace("localhost", "127.0.0.1").partition(":")
    proxy = Proxy((host, int(port)))
    yield proxy
    proxy.close()


def finish(rig: Rig, sender: Sender) -> None:
    """All that was sent comes to its end without a restart, once."""
    took = rig.finish(sender, RECOVERY)
    time.sleep(2)
    for worker in rig.workers:
        worker.leave()
    runs = ledger.read(rig.trace)
    late = [run.wall - run.name for run in runs if run.kind == "timer"]
    print(
        f"{sender.count} records of {len(sender.messages)} ids, {len(sender.timers)} timers; {len(runs)} runs,"
        f" {sum(not r.done for r in runs)} failed, {len(ledger.repeats(runs))} repeats; at the end {took:.1f} s after"
        f" the last fault; latest timer {max(late):.1f} s"
    )
    assert ledger.done(runs, "message") == sender.messages
    assert ledger.done(runs, "timer") == sender.timers
    assert not ledger.faults(runs, {}, rig.losses(runs))
    assert not rig.complaints()
    assert rig.lag() == 0


def test_bad_line(tmp_path: Path, line: Proxy) -> None:
    """Answers come late or never, connections break, and nothing answers for a while."""
    rig = Rig(tmp_path, os.environ.get("DURABLE_KAFKA", "localhost:9094"), f"127.0.0.1:{line.port}")
    chance = random.Random(11)  # noqa: S311
    try:
        rig.start("one")
        rig.start("two")
        until(lambda: all("subscribed" in worker.text() for worker in rig.workers), "the workers", 40)
        sender = Sender(rig, KEYS, int(SECONDS * 0.6))
        sending = threading.Thread(target=sender.run, args=[SECONDS])
        sending.start()
        assert line.count > 1
        until(lambda: ledger.read(rig.trace), "a first message", 30)
        while sending.is_alive():
            time.sleep(chance.uniform(0.2, 1.5))
            match chance.choice(["delay", "swallow", "cut", "down"]):
                case "delay":
                    line.delay = chance.uniform(0.05, 1.0)
                    time.sleep(chance.uniform(0.5, 4))
                case "swallow":
                    line.swallow = True
                    time.sleep(chance.uniform(0.1, 3))
                    line.cut()
                case "cut":
                    line.cut()
                case "down":
                    line.closed = True
                    line.cut()
                    time.sleep(chance.uniform(0.5, 5))
            line.heal()
        sending.join()
        finish(rig, sender)
    finally:
        rig.close()


def test_paused_broker(tmp_path: Path, broker: tuple[str, int]) -> None:
    """The broker stands still for longer than a session, so that the group forgets its members."""
    address, process = broker
    rig = Rig(tmp_path, address, os.environ.get("DURABLE_CASSANDRA", "localhost:9042"))
    pause = float(os.environ.get("FAULT_PAUSE", "15"))
    try:
        rig.start()
        rig.start()
        until(lambda: all("subscribed" in worker.text() for worker in rig.workers), "the workers", 40)
        sender = Sender(rig, KEYS, 15)
        sending = threading.Thread(target=sender.run, args=[6.0])
        sending.start()
        until(lambda: ledger.read(rig.trace), "a first message", 30)
        time.sleep(2)
        os.kill(process, signal.SIGSTOP)
        try:
            time.sleep(pause)
            before = [worker.text().count("partition assigned") for worker in rig.workers]
        finally:
            os.kill(process, signal.SIGCONT)
        until(
            lambda: all(w.text().count("partition assigned") > n for w, n in zip(rig.workers, before, strict=True)),
            "each worker to take part again", RECOVERY,
        )  # fmt: skip
        sending.join()
        finish(rig, sender)
    finally:
        rig.close()
