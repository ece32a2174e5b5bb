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


def slack(run: ledger.Run) -> float:
    """Seconds in which a run becomes durable on a busy machine. The mark of one without a timer waits for a commit."""
    return 1.5 if run.kind == "message" and run.name % 5 == 0 else 0.5


def test_kill(tmp_path: Path) -> None:
    """All is done, in order, and what was durable is not done again."""
    rig = Rig(tmp_path, os.environ.get("DURABLE_KAFKA", "localhost:9094"), os.environ.get("DURABLE_CASSANDRA", "localhost:9042"))
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
        runs: list[ledger.Run] = []

        def over() -> bool:
            runs[:] = ledger.read(rig.trace)
            return ledger.done(runs, "message") >= sender.messages and ledger.done(runs, "timer") >= sender.timers

        try:
            took = until(over, "all messages and timers", 60)
            until(lambda: rig.lag() == 0, "lag 0", 30)
        finally:
            missing = sorted(sender.messages - ledger.done(runs, "message")), sorted(sender.timers - ledger.done(runs, "timer"))
            print(f"missing messages {missing[0][:9]}, timers {missing[1][:9]}")
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
        assert not ledger.faults(runs, rig.deaths, slack)
        assert not rig.complaints()
        assert rig.lag() == 0
    finally:
        rig.close()
