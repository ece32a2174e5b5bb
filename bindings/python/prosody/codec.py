"""JSON as Prosody carries it: strict in both directions, exact for numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from typing import Any

LEAST = -(2**63)
MOST = 2**64 - 1

_PLAIN = frozenset({str, float, bool, type(None)})


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_scan: Any = json.JSONDecoder(parse_constant=_refuse).scan_once  # type: ignore[attr-defined]


def _convert(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return list(value)
    raise TypeError(f"value is not representable as JSON: {type(value).__name__}")


def _make_encoder() -> Any:
    """An encoder that is built once; json.dumps builds one for each call with settings."""
    options = json.JSONEncoder(
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
        check_circular=False,
        default=_convert,
    )
    try:
        from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]

        fast = c_make_encoder(
            None, _convert, encode_basestring, None, ":", ",", False, False, False
        )
        if "".join(fast({"a": [1, "é"]}, 0)) == '{"a":[1,"é"]}':
            return lambda value: "".join(fast(value, 0))
    except (ImportError, TypeError):
        pass  # another Python implementation
    return options.encode


_encode = _make_encoder()


def encode(value: Any) -> bytes:
    """Compact JSON in UTF-8.

    TypeError: a value, or the key of a dict, has no JSON form. ValueError: a number is NaN,
    infinite or an integer beyond 64 bits, a text has a lone surrogate, or the nesting is too deep.
    """
    try:
        kind = type(value)
        if kind is int and LEAST <= value <= MOST:
            return b"%d" % value
        if kind not in _PLAIN:
            _check(value, kind)
        encoded: bytes = _encode(value).encode()
        return encoded
    except RecursionError:
        raise ValueError("value is not representable as JSON: nested too deeply") from None


def _check(value: Any, kind: type) -> None:
    """Refuses what the encoder would silently turn into something else."""
    if kind is dict or isinstance(value, Mapping):
        for key, item in value.items():
            if type(key) is not str and not isinstance(key, str):
                raise TypeError(
                    f"value is not representable as JSON: a key is {type(key).__name__}, not str"
                )
            kind = type(item)
            if kind not in _PLAIN:
                _check(item, kind)
    elif kind is int or isinstance(value, int):
        if not LEAST <= value <= MOST:
            raise ValueError(
                "value is not representable as JSON: an integer is beyond 64 bits"
                f" ({value.bit_length()} bits)"
            )
    elif isinstance(value, (list, tuple, Set)):
        for item in value:
            kind = type(item)
            if kind not in _PLAIN:
                _check(item, kind)


def decode(text: bytes) -> Any:
    """The value of JSON in UTF-8. ValueError or RecursionError: Python cannot hold it."""
    return parse(text.decode())


def parse(document: str) -> Any:
    """The value of JSON."""
    try:
        value, end = _scan(document, 0)
        if end == len(document):
            return value
    except StopIteration:
        pass
    return json.loads(document, parse_constant=_refuse)
