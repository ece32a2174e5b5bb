"""Sums up the output of `go test -json`: what failed, with its output, and what was skipped.

A skipped test is a failure here: everything that a test could need is there.
"""

import collections
import json
import sys


def main(path: str) -> int:
    output: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    counts: collections.Counter[str] = collections.Counter()
    bad: list[tuple[str, str, str]] = []
    broken: list[str] = []
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                broken.append(line)
                continue
            package = event.get("Package") or event.get("ImportPath", "")
            key = (package, event.get("Test", ""))
            action = event["Action"]
            if action in ("output", "build-output"):
                output[key].append(event["Output"])
            elif action in ("pass", "fail", "skip"):
                if key[1]:
                    counts[action] += 1
                # A package without test files is "skip" without a test's name.
                if action == "fail" or (action == "skip" and key[1]):
                    bad.append((action, *key))
                output.pop(key, None) if action == "pass" else None
            elif action == "build-fail":
                bad.append((action, *key))
    for action, package, test in bad:
        print(f"--- {action}: {package} {test}")
        print("".join(output[(package, test)])[-8000:])
    print("".join(broken)[-8000:], end="")
    print(f"{counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped")
    return 1 if bad or not counts["pass"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
