"""Python values become the texts of options, or are refused by type."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from prosody.options import OFF, convert, nanoseconds


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("string", "x", b"x"),
        ("list", "a,b", [b"a,b"]),
        ("list", ("a", "b"), [b"a", b"b"]),
        ("list", [], []),
        ("bool", True, b"true"),
        ("bool", False, b"false"),
        ("int", 0, b"0"),
        ("port", 65535, b"65535"),
        ("float", 1, b"1"),
        ("float", -0.5, b"-0.5"),
        ("duration", 1.5, b"1500000000ns"),
        ("duration", 5, b"5000000000ns"),
        ("duration", 0.02, b"20000000ns"),
        ("duration", timedelta(days=1, microseconds=1), b"86400000001000ns"),
        ("read_cache", False, OFF),
        ("read_cache", 2, b"2000000000ns"),
        ("size", "64 MiB", b"64 MiB"),
        ("enum", "pipeline", b"pipeline"),
        ("address", "127.0.0.1:1", b"127.0.0.1:1"),
    ],
)
def test_convert(kind: str, value: Any, expected: Any) -> None:
    assert convert("option", kind, value) == expected


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        ("string", 7, TypeError),
        ("string", b"x", TypeError),
        ("string", "\ud800", ValueError),
        ("list", 5, TypeError),
        ("list", b"abc", TypeError),
        ("list", {"a": 1}, TypeError),
        ("list", ["a", 5], TypeError),
        ("bool", "yes", TypeError),
        ("bool", 1, TypeError),
        ("int", 1.5, TypeError),
        ("int", "1", TypeError),
        ("int", True, TypeError),
        ("int", -1, OverflowError),
        ("port", 65536, OverflowError),
        ("port", "8000", TypeError),
        ("float", "1", TypeError),
        ("float", True, TypeError),
        ("float", float("nan"), ValueError),
        ("duration", "5s", TypeError),
        ("duration", True, TypeError),
        ("duration", -1.0, ValueError),
        ("duration", -1, ValueError),
        ("duration", float("nan"), ValueError),
        ("duration", float("inf"), ValueError),
        ("duration", timedelta(seconds=-1), ValueError),
        ("read_cache", True, ValueError),
        ("read_cache", "5s", TypeError),
        ("size", 64, TypeError),
        ("enum", 1, TypeError),
    ],
)
def test_refused(kind: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^the_option: |surrogates"):
        convert("the_option", kind, value)


def test_huge_durations_are_left_to_the_library() -> None:
    assert nanoseconds("x", 1e300) > 10**300
