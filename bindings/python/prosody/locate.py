"""Where the shared library is, and why a system cannot load it."""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
from pathlib import Path

MUSL = "musl cannot load Go libraries: use a system with glibc, such as Debian"
_MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}


def find() -> str:
    """The path of the library, or a RuntimeError that tells how to get it."""
    if "musl" in (sysconfig.get_config_var("SOABI") or ""):
        raise RuntimeError(MUSL)
    package = Path(__file__).resolve().parent
    name = "libprosody.dylib" if sys.platform == "darwin" else "libprosody.so"
    chosen = os.environ.get("PROSODY_LIBRARY")
    places = [Path(chosen)] if chosen else [package / "lib" / name]
    if not chosen and len(package.parents) > 2:
        places.append(package.parents[2] / "build" / "lib" / name)
    for place in places:
        if place.is_file():
            return str(place)
    tried = ", ".join(map(str, places))
    raise RuntimeError(
        f"the Prosody library was not found (looked for {tried}). Install a wheel, or run"
        " `make build` in the repository, or set PROSODY_LIBRARY to the path of libprosody.so."
    )


def reason(path: str, error: OSError) -> str:
    """Why the library at a path could not be loaded, and what helps."""
    text, here = str(error), platform.machine()
    built = _machine(path)
    if built and built != here:
        return f"{path} is built for {built}, this machine is {here}: install the wheel for {here}"
    needed = [tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", text)]
    if needed:
        newest = ".".join(map(str, max(needed)))
        return f"{path} needs glibc {newest} or newer, this system has {platform.libc_ver()[1]}"
    return f"cannot load the Prosody library {path}: {text}"


def _machine(path: str) -> str | None:
    """The machine that an ELF file is for, if it is one."""
    try:
        with open(path, "rb") as file:
            head = file.read(20)
    except OSError:
        return None
    if len(head) < 20 or not head.startswith(b"\x7fELF"):
        return None
    number = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
    return _MACHINES.get(number, f"machine {number}")
