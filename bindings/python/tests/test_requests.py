"""Requests in mock mode: results of any size and kind, circles of waiting, what is left behind."""

from __future__ import annotations

import asyncio
import ctypes
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from conftest import eventually
from recorder import Recorder

from prosody import (
    Failure,
    FormatMismatch,
    HandlerError,
    MalformedResponse,
    PermanentError,
    ProsodyClient,
    Success,
    Timeout,
    request,
)


def stats(client: ProsodyClient) -> Any:
    """What the library tells about a client."""
    library: Any = client._core.runtime.library
    function = library._handle.prosody_client_stats
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_void_p] * 2
    return json.loads(library.text(lambda *given: function(client._core.handle, *given)))


@asynccontextmanager
async def service(
    options: dict[str, Any], work: Callable[..., Any], **more: Any
) -> AsyncIterator[tuple[ProsodyClient, Recorder]]:
    handler = Recorder(work)
    async with await ProsodyClient.create(**{**options, "subsystem": "s", **more}) as client:
        await client.subscribe(handler)
        await eventually(client.assigned_partition_count, "an assignment")
        yield client, handler


async def ask(client: ProsodyClient, topic: str, payload: Any = None, **more: Any) -> Any:
    given = {"subsystems": ["s"], "timeout": 20.0, **more}
    outcomes = await client.request(topic, given.pop("key", "k"), payload, **given)
    return outcomes["s"]


@pytest.mark.parametrize("megabytes", [3, 5, 60])
async def test_a_large_response_arrives_or_names_its_size(
    options: dict[str, Any], unique: str, megabytes: int
) -> None:
    text = "x" * (megabytes << 20)

    async def work(_context: Any, _message: Any) -> Any:
        return text

    async with service(options, work) as (client, handler):
        outcome = await ask(client, unique)
        if megabytes == 3:
            assert outcome == Success(text)
        else:
            assert isinstance(outcome.error, HandlerError)
            assert str(len(text) + 2) in outcome.error.message
        assert await ask(client, unique, key="other") == outcome
        assert len(handler.events) == 2  # the event is not repeated for its answer
        facts = stats(client)
        assert facts["pipeline"]["successes"] == 2
        assert facts["requests"]["pending"] == facts["answers"]["pending"] == 0


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "result",
    [float("nan"), (n for n in ()), object(), {1: 2}, b"x", nested(1000)],
    ids=lambda one: type(one).__name__,
)
async def test_a_result_without_a_form_is_a_failure_at_once(
    options: dict[str, Any], unique: str, result: Any
) -> None:
    async def work(_context: Any, _message: Any) -> Any:
        return result

    async with service(options, work) as (client, handler):
        outcome = await ask(client, unique)
        assert isinstance(outcome.error, (HandlerError, MalformedResponse))
        await client.send(unique, "k", None)
        await eventually(lambda: len(handler.events) == 2, "the plain message")
        assert [event.response_requested for event in handler.events] == [True, False]


async def test_two_that_ask_each_other_for_one_key_time_out(
    options: dict[str, Any], unique: str
) -> None:
    clients: dict[str, ProsodyClient] = {}

    async def work(_context: Any, message: Any) -> Any:
        me, other, depth = message.payload
        if depth == 2:  # the question back: nothing waits for it any more
            return "done"
        answer = await clients[me].request(
            f"{unique}-{other}", "k", [other, me, depth + 1], subsystems=[other], timeout=1.0
        )
        return type(getattr(answer[other], "error", None)).__name__

    parts = [
        {
            "subscribed_topics": f"{unique}-{name}",
            "group_id": f"{unique}-group-{name}",
            "subsystem": name,
        }
        for name in "ab"
    ]
    async with (
        service(options, work, **parts[0]) as (a, _),
        service(options, work, **parts[1]) as (b, _),
    ):
        clients |= {"a": a, "b": b}
        outcomes = await a.request(
            f"{unique}-a", "k", ["a", "b", 0], subsystems=["a"], timeout=20.0
        )
        assert outcomes == {"a": Success("Timeout")}
        for client in (a, b):
            await eventually(lambda c=client: not stats(c)["requests"]["pending"], "the ends")


async def test_shutdown_while_a_handler_waits_for_itself(
    options: dict[str, Any], unique: str
) -> None:
    clients: list[ProsodyClient] = []
    begun = asyncio.Event()

    async def work(_context: Any, _message: Any) -> Any:
        begun.set()
        return type(await ask(clients[0], unique, timeout=600.0)).__name__

    async with service({**options, "shutdown_timeout": 1.0}, work) as (client, _):
        clients.append(client)
        await client.send(unique, "k", 1)
        await asyncio.wait_for(begun.wait(), 60)
        await asyncio.wait_for(client.shutdown(), 60)


async def test_a_permanent_failure_in_low_latency_mode_is_told_once(
    options: dict[str, Any], unique: str
) -> None:
    async def work(_context: Any, message: Any) -> Any:
        raise (PermanentError if message.payload == "bad" else RuntimeError)("boom")

    more = {"mode": "low-latency", "failure_topic": f"{unique}-failed", "max_retries": 2}
    async with service(options, work, **more, retry_base=0.001) as (client, handler):
        assert await ask(client, unique, "bad") == Failure(HandlerError("PermanentError: boom"))
        assert await ask(client, unique, "again") == Failure(HandlerError("RuntimeError: boom"))
        assert len(handler.events) == 1 + 3
        facts = stats(client)
        assert facts["pipeline"]["dead_letters"] == 2
        assert facts["answers"]["delivered"] == 2


async def test_a_deferred_event_answers_when_it_succeeds(
    options: dict[str, Any], unique: str
) -> None:
    failed = []

    async def work(_context: Any, message: Any) -> Any:
        if message.payload == "later" and not failed:
            failed.append(1)
            raise RuntimeError("not yet")
        return message.payload

    more = {"defer_base": 1.0, "defer_failure_threshold": 1.0}
    async with service(options, work, **more) as (client, handler):
        for number in range(20):
            assert await ask(client, unique, number, key=f"k{number}") == Success(number)
        assert await ask(client, unique, "later") == Success("later")
        assert len(handler.events) == 22
        assert stats(client)["answers"]["delivered"] == 21


async def test_a_client_that_is_gone_is_no_trouble(options: dict[str, Any], unique: str) -> None:
    release = asyncio.Event()

    async def work(_context: Any, _message: Any) -> Any:
        await release.wait()
        return "late"

    async with service(options, work) as (client, _):
        other = await ProsodyClient.create(
            bootstrap_servers=unique, mock=True, source_system="other"
        )
        waiting = asyncio.ensure_future(ask(other, unique, timeout=600.0))
        await eventually(lambda: stats(client)["consumer"]["running"] == 1, "the handler")
        await other.shutdown()
        with pytest.raises(RuntimeError, match="shut down"):
            await waiting
        release.set()
        await eventually(lambda: stats(client)["answers"]["unwanted"] == 1, "the answer")
        assert await ask(client, unique) == Success("late")


def test_answers_that_the_package_does_not_know_are_malformed() -> None:
    def packed(kind: int, value: bytes) -> bytes:
        whole = request._ANSWER.size + 1 + len(value)
        size = -(-whole // 8) * 8
        return (request._ANSWER.pack(size, kind, 1, len(value)) + b"s" + value).ljust(size, b"\0")

    for kind, value, outcome in (
        (1, b"[1]", Success([1])),
        (1, b"[", Failure(MalformedResponse())),
        (2, b"\xff", Failure(HandlerError("\N{REPLACEMENT CHARACTER}"))),
        (3, b"", Failure(Timeout())),
        (4, b"", Failure(FormatMismatch())),
        (9, b"", Failure(MalformedResponse())),
    ):
        assert request.outcomes(packed(kind, value)) == {"s": outcome}
