"""Prints what a compiled program relies on: constants, struct layouts and functions of include/prosody.h
and its parts.

With a snapshot (include/prosody.abi) as second argument it compares instead: what the snapshot has
must be there still. New things are fine, and a struct that starts with its own size may grow.
Sizes and offsets come from the C compiler, on a 64-bit machine.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile


# A macro that is a number, once declarations() has marked it.
MACRO = re.compile(r"\bMACRO (\w+);")


def declarations(text: str) -> str:
    """The header without comments and preprocessor lines, blanks squeezed."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    number = r"^[ \t]*#[ \t]*define[ \t]+(PROSODY_\w+)[ \t]+[\w(][^\n\"]*$"
    text = re.sub(number, r"MACRO \1;", text, flags=re.M)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)
    return re.sub(r"\s+", " ", text)


def fields(body: str) -> list[tuple[str, str]]:
    """Names and types of the members of a struct body. Names of parameters are no part of a type."""
    members = []
    for member in filter(None, map(str.strip, body.split(";"))):
        pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", member)
        plain = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", member)
        found = pointer or plain
        if not found:
            raise SystemExit(f"cannot read the member {member!r}")
        kind = member[: found.start(1)] + member[found.end(1) :]
        members.append((found.group(1), re.sub(r"(?<=\*)\s+|\s+(?=[\[)]|$)", "", kind)))
    return members


def program(text: str) -> str:
    """A C program that prints constants and layouts."""
    lines = []
    for name in sorted(set(MACRO.findall(text))):
        lines.append(f'printf("constant {name} %lld\\n", (long long)({name}));')
    for body in re.findall(r"\benum(?: \w+)? \{(.*?)\}", text):
        for name in re.findall(r"(PROSODY_\w+)", re.sub(r"=[^,]*", "", body)):
            lines.append(f'printf("constant {name} %lld\\n", (long long)({name}));')
    for name, body in re.findall(r"typedef struct (?:\w+ )?\{(.*?)\} (\w+);", text):
        name, body = body, name
        lines.append(f'printf("struct {name} size %zu align %zu\\n", sizeof({name}), _Alignof({name}));')
        for field, kind in fields(body):
            size = f"sizeof((({name} *)0)->{field})"
            place = f"offsetof({name}, {field}), {size}"
            lines.append(f'printf("field {name}.{field} at %zu size %zu {kind}\\n", {place});')
    head = '#include <stddef.h>\n#include <stdio.h>\n#include "prosody.h"\nint main(void) {\n'
    return head + "\n".join(lines) + "\nreturn 0;\n}\n"


def facts(header: str) -> list[str]:
    """Every line that a compiled program relies on."""
    parts = sorted(glob.glob(os.path.join(os.path.splitext(header)[0], "*.h")))
    text = ""
    for part in [header, *parts]:
        with open(part, encoding="utf-8") as file:
            text += declarations(file.read())
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
        with open(source, "w", encoding="utf-8") as file:
            file.write(program(text))
        compiler = os.environ.get("CC", "gcc").split()
        include = os.path.dirname(os.path.abspath(header))
        subprocess.run([*compiler, "-std=c11", f"-I{include}", "-o", binary, source], check=True)
        printed = subprocess.run([binary], check=True, capture_output=True, text=True).stdout
    functions = re.findall(r"\bPROSODY_API ([^;{}]*\))\s*;", text)
    types = re.findall(r"typedef ([^;{}]*);", text)
    lines = printed.splitlines() + [f"function {one}" for one in functions] + [f"type {one}" for one in types]
    return sorted(line.replace("( ", "(") for line in lines)


def grown(line: str, now: set[str]) -> bool:
    """Whether the line is the size of a struct that may grow, and did."""
    found = re.fullmatch(r"struct (\w+) size (\d+) align (\d+)", line)
    if not found or f"field {found[1]}.size at 0 size 4 uint32_t" not in now:
        return False
    sizes = [re.fullmatch(rf"struct {found[1]} size (\d+) align {found[3]}", one) for one in now]
    return any(one and int(one[1]) > int(found[2]) for one in sizes)


def main(header: str, snapshot: str = "") -> int:
    lines = facts(header)
    if not snapshot:
        print("\n".join(lines))
        return 0
    with open(snapshot, encoding="utf-8") as file:
        before = file.read().splitlines()
    now = set(lines)
    lost = [line for line in before if line not in now and not grown(line, now)]
    for line in lost:
        print(f"changed or gone: {line}")
    if lost:
        print("a compiled host would break: raise PROSODY_ABI_VERSION, then `make abi`")
        return 1
    print(f"{len(before)} facts as before, {len(now - set(before))} new")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
