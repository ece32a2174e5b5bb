"""The annotations tell a type checker what is right and what is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def check(path: Path, cache: Path) -> set[tuple[int, str]]:
    pytest.importorskip("mypy", reason="the type checker is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), str(path)],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(
        r"^(?:.*/)?([\w.]+):(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE
    )
    assert all(file == path.name for file, _, _ in found), done.stdout
    return {(int(line), code) for _, line, code in found}


def marked(path: Path) -> set[tuple[int, str]]:
    lines = enumerate(path.read_text().splitlines(), 1)
    return {(n, m[1]) for n, line in lines if (m := re.search(r"# error: ([\w-]+)$", line))}


@pytest.mark.parametrize("name", ["good.py", "bad.py"])
def test_annotations(name: str, tmp_path: Path) -> None:
    path = ROOT / "tests" / "typed" / name
    assert check(path, tmp_path) == marked(path)
