"""Exceptions are classified by what they say of themselves, and always have a text."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from prosody import (
    EventHandlerError,
    NullValueError,
    PermanentError,
    PermanentStateError,
    StateError,
    TransientError,
    TransientStateError,
    errors,
    permanent,
    transient,
)


class Mute(Exception):
    @property
    def is_permanent(self) -> bool:
        raise SystemExit

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Duck(Exception):
    is_permanent = 1


def test_hierarchy() -> None:
    assert issubclass(PermanentStateError, (PermanentError,))
    assert issubclass(NullValueError, TransientStateError)
    assert issubclass(NullValueError, ValueError)
    assert all(issubclass(e, StateError) for e in (PermanentStateError, TransientStateError))
    assert EventHandlerError.is_permanent.__isabstractmethod__  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError(), False),
        (TransientError(), False),
        (PermanentError(), True),
        (Duck(), True),
        (Mute(), False),
        (asyncio.CancelledError(), False),
        (SystemExit(), False),
    ],
)
def test_classification(error: BaseException, expected: bool) -> None:
    assert errors.is_permanent(error) is expected


def test_texts() -> None:
    assert errors.describe(PermanentError("msg")) == b"PermanentError: msg"
    assert errors.describe(KeyError()) == b"KeyError"
    assert errors.describe(Mute()) == b"Mute: <the exception has no text>"
    assert errors.describe(ValueError("a\ud800\0")) == b"ValueError: a?\0"
    assert len(errors.describe(ValueError("é" * 10_000_000))) <= errors.TEXT_LIMIT
    errors.describe(ValueError("é" * 10_000_000)).decode()


@pytest.mark.parametrize("decorator", [transient, permanent])
def test_decorators_need_exception_classes(decorator: object) -> None:
    for arguments in ((), (lambda: None,), (5,), (int,)):
        with pytest.raises(TypeError):
            decorator(*arguments)  # type: ignore[operator]


def test_decorated_functions_keep_their_nature() -> None:
    @permanent(ValueError)
    async def wait() -> int:
        raise ValueError("x")

    @transient(Mute)
    def work() -> None:
        raise Mute

    assert inspect.iscoroutinefunction(wait)
    assert wait.__name__ == "wait"
    with pytest.raises(PermanentError, match="x") as caught:
        asyncio.run(wait())
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(TransientError, match="no text"):
        work()
