"""A system that cannot load the library hears why, and what helps."""

from __future__ import annotations

import platform
import sysconfig
from pathlib import Path

import pytest

from prosody import locate
from prosody.native import Library


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the library, to be spoilt."""
    path = tmp_path / "libprosody.so"
    whole = Path(locate.find())
    path.write_bytes(whole.read_bytes())
    beside = "libprosody-rdkafka.so.1"
    (tmp_path / beside).symlink_to(whole.parent / beside)
    return path


def spoil(path: Path, old: bytes, new: bytes, *, start: int = 0) -> None:
    data = path.read_bytes()
    at = data.index(old, start)
    path.write_bytes(data[:at] + new + data[at + len(old) :])


def test_another_machine(copy: Path) -> None:
    spoil(copy, copy.read_bytes()[18:20], (22).to_bytes(2, "little"), start=18)
    here = platform.machine()
    with pytest.raises(RuntimeError) as caught:
        Library(str(copy))
    assert f"built for machine 22, this machine is {here}" in str(caught.value)
    assert f"install the wheel for {here}" in str(caught.value)


def test_an_older_glibc(copy: Path) -> None:
    spoil(copy, b"\0GLIBC_2.34\0", b"\0GLIBC_2.94\0")
    with pytest.raises(RuntimeError, match=r"needs glibc 2\.94 or newer, this system has 2\.\d+"):
        Library(str(copy))


def test_musl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: f"{name}-x86_64-linux-musl")
    with pytest.raises(RuntimeError, match="use a system with glibc"):
        locate.find()


def test_no_library_at_all(tmp_path: Path) -> None:
    text = tmp_path / "libprosody.so"
    text.write_text("short")
    with pytest.raises(RuntimeError, match=f"cannot load the Prosody library {text}: "):
        Library(str(text))
