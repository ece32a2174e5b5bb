#!/usr/bin/env python3
"""The processor time of one event, by process: bench.py's arguments, one more JSON line.

    KAFKA_PID=… CASSANDRA_PID=… PYTHONPATH=bindings/python python3 bench/cpu.py state --count 40000

`scripts/services pid` names both. What is counted lies between the first and the last handler, in µs an
event. Unlike rates, it tells something on a machine that does other things too.
"""

import json
import os
import time

import bench

TICK = os.sysconf("SC_CLK_TCK")
PROCESSES = {"ours": "self", "kafka": os.environ["KAFKA_PID"], "cassandra": os.environ["CASSANDRA_PID"]}
moments = []


def spent(path):
    with open(path) as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def note():
    found = {name: spent(f"/proc/{process}/stat") for name, process in PROCESSES.items()}
    found["python_thread"] = spent(f"/proc/self/task/{os.getpid()}/stat")
    found["wall"] = time.perf_counter()
    moments.append(found)


class Handler(bench.Handler):
    def count(self):
        if self.seen == 0:
            note()
        super().count()
        if self.seen == self.expected:
            note()
            between = {name: moments[1][name] - moments[0][name] for name in moments[0]}
            each = {name: round(seconds / self.expected * 1e6, 1) for name, seconds in between.items()}
            print(json.dumps({"scenario": "cpu", **each}), flush=True)


bench.Handler = Handler
bench.main()
