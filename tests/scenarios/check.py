"""Runs the driver of a host on scenarios.txt and compares what it says with the transcripts there.

usage: check.py SCENARIOS HOST COMMAND...
"""

import difflib
import subprocess
import sys
import tempfile


def stories(path: str, host: str) -> list[list[str]]:
    """The lines of each scenario that the host can play, without those that tell which can."""
    found: list[list[str]] = []
    with open(path, encoding="utf-8") as lines:
        for line in lines.read().splitlines():
            if line.startswith("scenario "):
                found.append([])
            if found:
                found[-1].append(line)
    able = [story for story in found if all(host in line.split() for line in story if line.startswith("hosts "))]
    return [[line for line in story if not line.startswith("hosts ")] for story in able]


def main() -> int:
    path, host, *command = sys.argv[1:]
    played = stories(path, host)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as script:
        script.write("\n".join(line for story in played for line in story) + "\n")
        script.flush()
        run = subprocess.run([*command, script.name], capture_output=True, text=True, timeout=300, check=False)
    said = run.stdout.splitlines()
    wanted = [line for story in played for line in story if line.startswith((">", "scenario "))]
    if run.returncode or said != wanted or not played:
        print("\n".join(difflib.unified_diff(wanted, said, "scenarios.txt", host, lineterm="", n=8)))
        print(run.stderr[-4000:], f"exit status {run.returncode}", sep="\n")
        return 1
    print(f"{len(played)} scenarios, {len(wanted) - len(played)} lines as expected")
    return 0


sys.exit(main())
