"""What the members of a group did, and what must hold of it."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Run:
    """One run of a handler; end is None while it runs, or when its process was killed."""

    begin: float
    pid: int
    topic: str
    partition: int
    offset: int
    key: str
    payload: Any
    end: float | None = None
    done: bool = False


def read(path: Path) -> list[Run]:
    """All runs in the order of their beginnings."""
    runs: list[Run] = []
    running: dict[tuple[int, str, int, int], Run] = {}
    rows = sorted(json.loads(line) for line in path.read_bytes().splitlines())
    for at, mark, pid, topic, partition, offset, key, payload in rows:
        place = (pid, topic, partition, offset)
        if mark == "begin":
            running[place] = Run(at, pid, topic, partition, offset, key, payload)
            runs.append(running[place])
        else:
            run = running.pop(place)
            run.end, run.done = at, mark == "end"
    return runs


def faults(runs: list[Run], deaths: dict[int, float]) -> list[str]:
    """Runs of a key that overlap or come out of order; deaths tells when processes were killed."""
    found: list[str] = []
    keys: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        keys[run.topic, run.key].append(run)
    for (topic, key), those in keys.items():
        due = 0  # the records of a key are numbered
        free = 0.0
        for run in those:
            if run.begin < free:
                found.append(
                    f"{topic} {key} {run.payload}: begins {free - run.begin:.3f} s too early"
                )
            if run.payload > due:
                found.append(f"{topic} {key}: {run.payload} comes while {due} is due")
            end = run.end if run.end is not None else deaths.get(run.pid, float("inf"))
            free = max(free, end)
            if run.done and run.payload == due:
                due += 1
    return found


def repeats(runs: list[Run]) -> list[Run]:
    """Runs of records that were done before."""
    seen: set[tuple[str, int, int]] = set()
    again = []
    for run in runs:
        place = (run.topic, run.partition, run.offset)
        if place in seen:
            again.append(run)
        if run.done:
            seen.add(place)
    return again


def done(runs: list[Run]) -> set[tuple[str, Any]]:
    return {(run.key, run.payload) for run in runs if run.done}
