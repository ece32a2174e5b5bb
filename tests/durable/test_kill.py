"""Workers are killed at random while messages, timers and retries flow."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import ledger
from rig import Rig, Sender, until

KILLS = int(os.environ.get("KILLS", "8"))
MESSAGES = int(os.environ.get("KILL_MESSAGES", str(60 * KILLS)))
KEYS = 40


def test_kill(tmp_path: Path) -> None:
    """All is done, in order, and what was durable is not done again."""
    rig = Rig(
        tmp_path,
        os.environ.get("DURABLE_KAFKA", "localhost:9094"),
        os.environ.get("DURABLE_CASSANDRA", "localhost:9042"),
    )
    seed = int(os.environ.get("KILL_SEED", str(random.randrange(1 << 30))))  # noqa: S311
    chance = random.Random(seed)  # noqa: S311
    print(f"KILL_SEED={seed}")
    try:
        # The last one is no static member: its partitions move when it is killed.
        names = ["one", "two", ""]
        crew = [rig.start(name) for name in names]
        until(lambda: all("subscribed" in worker.text() for worker in crew), "the workers", 40)
        sender = Sender(rig, KEYS, MESSAGES // KEYS)
        sending = threading.Thread(target=sender.run, args=[KILLS * 3.0])
        sending.start()
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.3, 5.0))
            i = chance.randrange(len(crew))
            rig.kill(crew[i])
            crew[i] = rig.start(names[i])
        sending.join()
        took = rig.finish(sender, 60 + KILLS)  # the last timer is due at about 20 + KILLS
        time.sleep(3)  # what would come again comes now
        for worker in crew:
            worker.leave()
        runs = ledger.read(rig.trace)
        again = ledger.repeats(runs)
        late = [run.wall - run.name for run in runs if run.kind == "timer"]
        gaps = [rig.deaths.get(old.pid, float("inf")) - old.end for old, _ in again]
        print(
            f"{KILLS} kills; {sender.count} records of {len(sender.messages)} ids, {len(sender.timers)} timers;"
            f" {len(runs)} runs, {sum(not r.done for r in runs)} failed or cut off, {len(again)} repeats, done at most"
            f" {max(gaps, default=0):.3f} s before the kill; at the end after {took:.1f} s; latest timer {max(late):.1f} s"
        )
        assert ledger.done(runs, "message") == sender.messages
        assert ledger.done(runs, "timer") == sender.timers
        assert not ledger.faults(runs, rig.deaths, rig.losses(runs))
        assert not rig.complaints()
        assert rig.lag() == 0
    finally:
        rig.close()


def test_kill_state(tmp_path: Path) -> None:
    """The collections of a key agree with each other, and with its events and timers, each of them once."""
    rig = Rig(
        tmp_path,
        os.environ.get("DURABLE_KAFKA", "localhost:9094"),
        os.environ.get("DURABLE_CASSANDRA", "localhost:9042"),
    )
    kills = int(os.environ.get("STATE_KILLS", "5"))
    seed = int(os.environ.get("KILL_SEED", str(random.randrange(1 << 30))))  # noqa: S311
    chance = random.Random(seed)  # noqa: S311
    print(f"KILL_SEED={seed}")
    dump = tmp_path / "dump"
    try:
        names = ["one", "two", ""]
        crew = [rig.start(name, dump=str(dump)) for name in names]
        until(lambda: all("subscribed" in worker.text() for worker in crew), "the workers", 40)
        sender = Sender(rig, KEYS, 10 * kills)
        sending = threading.Thread(target=sender.run, args=[kills * 3.0])
        sending.start()
        for _ in range(kills):
            time.sleep(chance.uniform(0.3, 5.0))
            i = chance.randrange(len(crew))
            rig.kill(crew[i])
            crew[i] = rig.start(names[i], dump=str(dump))
        sending.join()
        rig.finish(sender, 60 + kills)
        for worker in crew:
            worker.leave()
        left = list((tmp_path / "cache").iterdir())
        reporter = rig.start(dump=str(dump), failing=0.0)
        keys = {f"k{key}" for key in range(KEYS)}
        rig.ask(keys)
        until(lambda: dump.exists() and {row["key"] for row in ledger.rows(dump)} >= keys, "the reports", 60)
        reporter.leave()
        found = {row["key"]: row for row in ledger.rows(dump)}
        wrong = []
        for key in sorted(keys):
            numbers = sorted(n for name, n in sender.messages if name == key)
            fired = {str(second): 1 for name, second in sender.timers if name == key}
            whole = {
                "key": key,
                "count": len(numbers),
                "seen": {str(n): 1 for n in numbers},
                "order": numbers,
                "fired": fired,
            }
            if found[key] != whole:
                wrong.append((found[key], whole))
        print(f"{kills} kills; {sender.count} records of {len(sender.messages)} ids, {len(sender.timers)} timers")
        assert not wrong, wrong[:2]
        assert not left, "each process removes what it and killed ones have on disk"
        assert not rig.complaints()
    finally:
        rig.close()


def test_pause(tmp_path: Path) -> None:
    """A process that stood still while others took its keys over changes nothing of them."""
    rig = Rig(
        tmp_path,
        os.environ.get("DURABLE_KAFKA", "localhost:9094"),
        os.environ.get("DURABLE_CASSANDRA", "localhost:9042"),
    )
    rounds = int(os.environ.get("PAUSES", "2"))
    try:
        crew = [rig.start(work=0.5), rig.start(work=0.5)]
        until(lambda: all("subscribed" in worker.text() for worker in crew), "the workers", 40)
        # Many keys, so that most records of keys stay as they were written during the pause.
        sender = Sender(rig, 200, 4 * rounds)
        sending = threading.Thread(target=sender.run, args=[20.0 * rounds])
        sending.start()
        until(lambda: len({run.pid for run in ledger.read(rig.trace)}) == 2, "both to work", 30)
        pauses: dict[int, tuple[float, float]] = {}
        for _ in range(rounds):
            time.sleep(3)
            pauses[crew[0].pid] = crew[0].pause(11)  # the session ends after 6 s
            time.sleep(0.5)
            rig.kill(crew[1])  # what it knew of the keys is in the store only
            crew = [rig.start(work=0.5), crew[0]]
            time.sleep(6)
        sending.join()
        rig.finish(sender, 60)
        for worker in crew:
            worker.leave()
        runs = ledger.read(rig.trace)
        strange = []
        for old, new in ledger.repeats(runs):
            # What a paused handler did does not count when the keys were taken over meanwhile.
            cut = [at for at in pauses.get(old.pid, ()) if -1 < at - old.begin < 1 or -1 < at - old.end < 1]
            if not cut and rig.deaths.get(old.pid, float("inf")) - old.end > ledger.slack(old):
                strange.append((old, new))
        print(f"{len(runs)} runs, {len(ledger.repeats(runs))} repeats")
        assert not strange
        assert ledger.done(runs, "message") == sender.messages
        assert ledger.done(runs, "timer") == sender.timers
        assert not rig.complaints()
    finally:
        rig.close()
