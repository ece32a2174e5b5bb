"""memcheck.py PROGRAM: runs it under valgrind and fails on errors in memory of C.

Valgrind takes what lies below a stack pointer for dead. Go gives such memory to other uses, so
its own loads, stores and system calls look invalid there, in other places at each run. All of
these lie in mappings that malloc and the threads of C know nothing of, and are left out. Blocks
of malloc and stacks of C are watched. Of one instruction valgrind tells the first error alone, so
what the library's own code does there is left to the address sanitizer (make sanitized).
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from xml.etree import ElementTree

GO = re.compile(r"is in a [rwx-]+ anonymous segment")
# Searches of Go read whole vectors; one may reach over the end of a string of the environment.
VECTOR = re.compile(r"Invalid read of size (16|32)$")
LIVE = re.compile(r"bytes inside a block of size [\d,]+ alloc'd")


def harmless(error: ElementTree.Element) -> bool:
    if error.findtext("kind") not in ("InvalidRead", "InvalidWrite", "SyscallParam"):
        return False
    where = error.findtext("auxwhat") or ""
    if VECTOR.match(error.findtext("what") or "") and LIVE.search(where):
        return (error.findtext("stack/frame/obj") or "").endswith("/libprosody.so")
    return GO.search(where) is not None


def lines(error: ElementTree.Element) -> Iterator[str]:
    for part in error:
        if part.tag in ("what", "auxwhat"):
            yield part.text or ""
        if part.tag == "xwhat":
            yield part.findtext("text") or ""
        if part.tag == "stack":
            for frame in part:
                place = frame.findtext("file") or frame.findtext("obj")
                line = frame.findtext("line") or frame.findtext("ip")
                yield f"    {frame.findtext('fn') or '???'} ({place}:{line})"


def main() -> int:
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        valgrind = ["valgrind", "-q", "--undef-value-errors=no", "--error-limit=no", "--xml=yes"]
        code = subprocess.call([*valgrind, f"--xml-file={report.name}", *sys.argv[1:]])
        if code != 0:
            print(f"{sys.argv[1]} ended with {code}")
            return 1
        told = ElementTree.parse(report.name).findall("error")
    # With a report in XML it always looks for leaks; these are left to the sanitizer.
    told = [error for error in told if not (error.findtext("kind") or "").startswith("Leak_")]
    errors = [error for error in told if not harmless(error)]
    for error in errors:
        print("\n".join(lines(error)))
    return 1 if errors else 0


sys.exit(main())
