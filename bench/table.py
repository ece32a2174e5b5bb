"""Prints medians and ratios of the results of run.sh as a Markdown table."""

import json
import statistics
import sys
from collections import defaultdict

NAMES = {
    "consume": "consume, default options",
    "wide": "consume, 256 concurrent, 1,024 uncommitted",
    "memory": "RSS: consume",
    "send": "send",
    "latency": "latency at 200/s",
    "state": "state, default options",
    "request": "request, one after the other",
    "wide-request": "request, 64 in flight",
    "wide-state": "state, 256 concurrent, 1,024 uncommitted",
}


def median(values):
    return statistics.median(values) if values else None


def row(name, peer, ours, unit):
    ratio = "–"
    if peer and ours:
        ratio = f"{ours / peer:.2f}"
    show = lambda value: "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
    print(f"| {name} | {show(peer)} {unit} | {show(ours)} {unit} | {ratio} |")


def main():
    found = defaultdict(list)
    loads = []
    with open(sys.argv[1], encoding="utf-8") as lines:
        for text in lines:
            line = json.loads(text)
            found[line["part"], line["who"], line["mode"]].append(line)
            loads.append(line["load"])
    print("| What | Peer | Ours | Ours / peer |\n|---|---|---|---|")
    for part, name in NAMES.items():
        for mode in ("real", "mock"):
            peer, ours = found[part, "peer", mode], found[part, "ours", mode]
            if part in ("latency", "request"):
                for quantile in ("p50", "p99"):
                    values = [median([line["ms"][quantile] for line in lines]) for lines in (peer, ours)]
                    row(f"{name}, {quantile}, {mode}", *values, "ms")
                continue
            field, unit = ("rss_mib", "MiB") if part == "memory" else ("per_second", "/s")
            row(f"{name}, {mode}", *[median([line[field] for line in lines]) for lines in (peer, ours)], unit)
            if part == "send":
                row(f"RSS: {name}, {mode}", *[median([line["rss_mib"] for line in lines]) for lines in (peer, ours)], "MiB")
    for width, part in (("narrow", "state"), ("wide", "wide-state")):
        plain, ours = [[line["per_second"] for line in found[key]] for key in (("rows", "plain", width), (part, "ours", "real"))]
        row(f"{NAMES[part]}, beside plain rows", median(plain), median(ours), "/s")
    for name in ("value_get", "map_get", "value_set"):
        peer, ours = [[line[f"{name}_us"] for line in found["cached", who, "mock"]] for who in ("peer", "ours")]
        row(f"{name.replace('_', ' ')} in memory", median(peer), median(ours), "µs")
    print("\n| C consumer | Records/s | CPU a record | Of plain Poll | Of tuned Poll |\n|---|---|---|---|---|")
    rates = {key: median([line["consume_per_s"] for line in lines]) for key, lines in found.items() if key[0] == "c"}
    plain, tuned = rates.get(("c", "poll", "plain")), rates.get(("c", "poll", "tuned"))
    for who, mode, name in (
        ("poll", "plain", "Poll loop, librdkafka's defaults"),
        ("poll", "tuned", "Poll loop, tuned"),
        ("ours", "narrow", "ours, 32 concurrent, 64 uncommitted"),
        ("ours", "wide", "ours, 256 concurrent, 256 uncommitted"),
    ):
        lines = found["c", who, mode]
        if lines and plain and tuned:
            cpu = median([line["cpu_us_per_record"] for line in lines])
            value = rates["c", who, mode]
            print(f"| {name} | {value:,.0f} | {cpu:.1f} µs | {value / plain:.2f} | {value / tuned:.2f} |")
    print(f"\nLoad average while it ran: {min(loads):.1f} to {max(loads):.1f}.")


if __name__ == "__main__":
    main()
