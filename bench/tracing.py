#!/usr/bin/env python3
"""What traces cost: messages a second through a client in mock mode, sent and handled, in processes of their own.

Rounds alternate between no exporter, an exporter with 10 % sampling and one with all spans, so that a change of the
machine's load meets all of them. The exporters send to a collector in a process of its own.

With --beside DIRECTORY it compares, without an exporter, this tree with another one: the CPU time of a message in
both, in turn. A copy of the tree without what traces need tells what traces cost that are off.
"""

from __future__ import annotations

import argparse
import asyncio
import http.server
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CASES = {
    "off": {},
    "10 %": {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"},
    "all": {"OTEL_TRACES_SAMPLER": "parentbased_always_on"},
}


async def measure(count: int) -> tuple[float, float]:
    """Sends and handles so many messages: how many in a second, and the CPU time of one in microseconds."""
    import prosody

    done, handled = asyncio.Event(), 0

    class Handler(prosody.EventHandler[Any, Any]):
        async def on_message(self, _context: Any, _message: Any) -> None:
            nonlocal handled
            handled += 1
            if handled == total:
                done.set()

        async def on_excise(self, _context: Any, _message: Any) -> None:
            pass

        async def on_timer(self, _context: Any, _timer: Any) -> None:
            pass

    async with await prosody.ProsodyClient.create(
        mock=True, bootstrap_servers="bench", group_id="g", source_system="s", subscribed_topics="t", log="error"
    ) as client:
        await client.subscribe(Handler())
        began = used = 0.0
        for warm in (True, False):
            handled, total = 0, count // 4 if warm else count
            done.clear()
            began, used = time.perf_counter(), time.process_time()
            for start in range(0, total, 500):
                await asyncio.gather(*(client.send("t", f"k{n % 997}", n) for n in range(start, min(start + 500, total))))
            await done.wait()
        return count / (time.perf_counter() - began), 1e6 * (time.process_time() - used) / count


def collect(port: Any) -> None:
    """A collector that takes everything."""

    class Receiver(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    port.send(server.server_port)
    server.serve_forever()


def once(root: Path, count: int, variables: dict[str, str]) -> tuple[float, float]:
    """One measurement in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PROSODY_"))}
    environment["PYTHONPATH"] = str(root / "bindings" / "python")
    out = subprocess.run(
        [sys.executable, __file__, "--once", "--count", str(count)],
        env=environment | variables, check=True, capture_output=True, text=True,
    )  # fmt: skip
    rate, cost = map(float, out.stdout.split())
    return rate, cost


def beside(other: Path, count: int, rounds: int) -> None:
    """CPU time of a message here and in another tree, in turn; what comes first alternates."""
    costs: dict[Path, list[float]] = {ROOT: [], other: []}
    for number in range(rounds):
        for root in (ROOT, other) if number % 2 else (other, ROOT):
            costs[root].append(once(root, count, {})[1])
    ratios = [mine / its for mine, its in zip(costs[ROOT], costs[other], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    least = min(costs[ROOT]) / min(costs[other])
    print(f"this tree {statistics.median(costs[ROOT]):.2f} us, the other {statistics.median(costs[other]):.2f} us of CPU each;"
          f" ratio {middle:.3f} (quartiles {low:.3f} to {high:.3f}), of the least {least:.3f}; {rounds} rounds of {count}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--once", action="store_true", help="one measurement in this process")
    parser.add_argument("--beside", type=Path, metavar="DIRECTORY", help="another tree, which is built")
    chosen = parser.parse_args()
    if chosen.once:
        print(*asyncio.run(measure(chosen.count)))
        return
    if chosen.beside:
        beside(chosen.beside.resolve(), chosen.count, chosen.rounds)
        return
    ours, theirs = multiprocessing.Pipe()
    collector = multiprocessing.Process(target=collect, args=(theirs,), daemon=True)
    collector.start()
    endpoint = f"http://127.0.0.1:{ours.recv()}"
    rates: dict[str, list[float]] = {case: [] for case in CASES}
    costs: dict[str, list[float]] = {case: [] for case in CASES}
    for _ in range(chosen.rounds):
        for case, variables in CASES.items():
            exporter = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_LOGS_EXPORTER": "none"} if variables else {}
            rate, cost = once(ROOT, chosen.count, variables | exporter)
            rates[case].append(rate)
            costs[case].append(cost)
    base, cheap = statistics.median(rates["off"]), statistics.median(costs["off"])
    for case, found in rates.items():
        rate, cost = statistics.median(found), statistics.median(costs[case])
        print(f"{case:>5}: {rate:8.0f} messages/s ({100 * (rate / base - 1):+.1f} %, {min(found):.0f} to {max(found):.0f}),"
              f" {cost:6.1f} us of CPU each ({100 * (cost / cheap - 1):+.1f} %)")
    collector.terminate()


if __name__ == "__main__":
    main()
