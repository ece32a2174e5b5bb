"""What the workers did, and what must hold of it."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Run:
    """One run of a handler. Without an end its process was killed meanwhile."""

    begin: float
    wall: float
    pid: int
    kind: str
    key: str
    name: int  # of a message its number in the key, of a timer its second
    place: list[int] | None
    end: float = float("inf")
    done: bool = False


def read(path: Path) -> list[Run]:
    runs: list[Run] = []
    running: dict[tuple[int, str, str, int], Run] = {}
    lines = path.read_bytes().split(b"\n")[:-1]
    for at, wall, mark, pid, kind, key, name, place in sorted(json.loads(line) for line in lines):
        if mark == "begin":
            running[pid, kind, key, name] = run = Run(at, wall, pid, kind, key, name, place)
            runs.append(run)
        else:
            run = running.pop((pid, kind, key, name))
            run.end, run.done = at, mark == "end"
    return runs


def rows(path: Path) -> list[Any]:
    """The whole lines of a file of JSON."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def done(runs: list[Run], kind: str) -> set[tuple[str, int]]:
    return {(run.key, run.name) for run in runs if run.done and run.kind == kind}


def repeats(runs: list[Run]) -> list[tuple[Run, Run]]:
    """Each run of something that was done before, with the last run that had done it."""
    last: dict[tuple[str, str, int], Run] = {}
    found = []
    for run in runs:
        name = (run.kind, run.key, run.name)
        if name in last:
            found.append((last[name], run))
        if run.done:
            last[name] = run
    return found


def slack(run: Run) -> float:
    """Seconds in which a run becomes durable on a busy machine. The mark of one without a timer waits for a commit."""
    return 2.5 if run.kind == "message" and run.name % 5 == 0 else 0.5


def faults(runs: list[Run], deaths: dict[int, float], losses: dict[int, list[float]]) -> list[str]:
    """What must not be. A process that was killed may have lost what it did in its last seconds.

    One whose group has forgotten it writes nothing from then on: the next owner does again what ended just then.
    """
    found = []
    for old, new in repeats(runs):
        died = deaths.get(old.pid, float("inf")) - old.end <= slack(old)
        if not died and not any(moment - slack(old) <= old.end < moment + 1 for moment in losses.get(old.pid, [])):
            found.append(f"{old.kind} {old.key} {old.name} was done by {old.pid} and comes again: {old} {new}")
    keys: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        keys[run.key].append(run)
        if run.kind == "timer" and run.wall < run.name:
            found.append(f"timer {run.key} {run.name} fires {run.name - run.wall:.3f} s early")
    for key, those in keys.items():
        due, free, seen = 0, 0.0, set()
        for run in those:
            if run.begin < free:
                found.append(f"{key}: two handlers at once, by {free - run.begin:.3f} s: {run}")
            free = max(free, min(run.end, deaths.get(run.pid, float("inf"))))
            if run.kind != "message" or not run.done or run.name in seen:
                continue
            if run.name != due:
                found.append(f"{key}: {run.name} is done while {due} is due")
            seen.add(run.name)
            due = max(due, run.name + 1)
    return found
