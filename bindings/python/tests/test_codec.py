"""JSON is strict and exact in both directions."""

from __future__ import annotations

import collections
import enum
import json
import math
from types import MappingProxyType
from typing import Any

import pytest

from prosody import codec


class Number(enum.IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        (True, "true"),
        ("é\x00", '"é\\u0000"'),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (2**64 - 1, str(2**64 - 1)),
        (-(2**63), str(-(2**63))),
        (Number.ONE, "1"),
        ((1, (2,)), "[1,[2]]"),
        ({7}, "[7]"),
        (frozenset({"a"}), '["a"]'),
        ({"z": 1, "a": [{}]}, '{"z":1,"a":[{}]}'),
        (collections.OrderedDict(b=1), '{"b":1}'),
        (MappingProxyType({"a": {1}}), '{"a":[1]}'),
        ([MappingProxyType({"a": ()})], '[{"a":[]}]'),
        ("", '""'),
    ],
)
def test_encode(value: Any, expected: str) -> None:
    assert codec.encode(value) == expected.encode()


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (object(), TypeError),
        (b"bytes", TypeError),
        (bytearray(b"x"), TypeError),
        ({1: 2}, TypeError),
        ({None: 2}, TypeError),
        ({True: 2}, TypeError),
        ([{"a": [{2.5: 1}]}], TypeError),
        (({1: 1},), TypeError),
        (MappingProxyType({1: 2}), TypeError),
        ([{"x": object()}], TypeError),
        (2**64, ValueError),
        (-(2**63) - 1, ValueError),
        ([10**400], ValueError),
        ({"a": {"b": 2**64}}, ValueError),
        ({2**64}, ValueError),
        (math.nan, ValueError),
        ({"x": [-math.inf]}, ValueError),
        ("\ud800", ValueError),
        ({"\udfff": 1}, ValueError),
    ],
)
def test_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        codec.encode(value)


def test_circular_and_deep_values_are_refused() -> None:
    circle: list[Any] = []
    circle.append({"again": circle})
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (circle, deep):
        with pytest.raises(ValueError, match="deeply"):
            codec.encode(value)
    while deep:
        deep = deep[0]
    assert codec.encode([1]) == b"[1]"


@pytest.mark.parametrize("text", ["1", ' {"a" : [1.0, -0.0, 18446744073709551615]} ', '"\\ud800"'])
def test_decode(text: str) -> None:
    value = codec.decode(text.encode())
    assert repr(value) == repr(json.loads(text))


@pytest.mark.parametrize(
    "text", [b"NaN", b"[Infinity]", b"1 2", b"nul", b"", b'"\xff"', b"9" * 5000]
)
def test_undecodable(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (each has a text of its own)
        codec.decode(text)


def test_undecodable_nesting() -> None:
    with pytest.raises((RecursionError, ValueError)):
        codec.decode(b"[" * 200_000 + b"]" * 200_000)
