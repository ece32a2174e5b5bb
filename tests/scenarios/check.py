"""Runs a driver on scenarios.txt and compares what it says with the transcripts there.

usage: check.py SCENARIOS COMMAND...
"""

import difflib
import subprocess
import sys


def expected(path: str) -> list[str]:
    with open(path, encoding="utf-8") as lines:
        return [line for line in lines.read().splitlines() if line.startswith((">", "scenario "))]


def main() -> int:
    path, *command = sys.argv[1:]
    run = subprocess.run([*command, path], capture_output=True, text=True, timeout=300, check=False)
    said, wanted = run.stdout.splitlines(), expected(path)
    names = [line for line in wanted if line.startswith("scenario ")]
    if run.returncode or said != wanted or not names or len(names) == len(wanted):
        print("\n".join(difflib.unified_diff(wanted, said, "scenarios.txt", command[-1], lineterm="", n=8)))
        print(run.stderr[-4000:], f"exit status {run.returncode}", sep="\n")
        return 1
    print(f"{len(names)} scenarios, {len(wanted) - len(names)} lines as expected")
    return 0


sys.exit(main())
