"""Traces cross between the program's OpenTelemetry and the library, in both directions."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rig import Script

import prosody
from prosody import PermanentError, ProsodyClient, tracing

SENDER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """The one SDK of the process."""
    made = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    trace.set_tracer_provider(provider)
    return made


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> InMemorySpanExporter:
    exporter.clear()
    return exporter


def parents(message: Any) -> list[str]:
    return [value.decode() for name, value in message.headers if name == "traceparent"]


def form(span: Any) -> str:
    place = span.get_span_context()
    return f"00-{place.trace_id:032x}-{place.span_id:016x}-{int(place.trace_flags):02x}"


def test_without_an_sdk_the_context_passes_and_costs_nothing_before() -> None:
    """Runs apart: the process of the tests has an SDK."""
    program = f"""
import asyncio, prosody
from prosody import tracing

class Handler(prosody.EventHandler):
    seen = []
    async def on_message(self, context, message):
        parents = [v.decode() for n, v in message.headers if n == "traceparent"]
        self.seen.append(parents)
        if message.payload == 1:
            await self.client.send("other", "k", 2)
            await asyncio.create_task(self.client.send("other", "k", 3))
    async def on_excise(self, context, message): pass
    async def on_timer(self, context, timer): pass

async def main():
    handler = Handler()
    client = handler.client = await prosody.ProsodyClient.create(
        mock=True, bootstrap_servers="m", group_id="g", source_system="s",
        subscribed_topics=["t", "other"])
    await client.subscribe(handler)
    await client.send("t", "k", 0)
    while len(handler.seen) < 1: await asyncio.sleep(0.01)
    assert not tracing.on
    await client.send("t", "k", 1, headers=[("traceparent", "{SENDER}"), ("traceparent", "x")])
    while len(handler.seen) < 4: await asyncio.sleep(0.01)
    assert handler.seen == [[], ["{SENDER}"], ["{SENDER}"], ["{SENDER}"]], handler.seen
    await client.send("t", "k", 4)
    while len(handler.seen) < 5: await asyncio.sleep(0.01)
    assert handler.seen[4] == [], handler.seen
    await client.shutdown()
asyncio.run(main())
prosody.flush_telemetry(); prosody.shutdown_telemetry(); prosody.shutdown_telemetry()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


async def test_concurrent_handlers_do_not_mix(
    spans: InMemorySpanExporter, options: dict[str, Any], unique: str
) -> None:
    """Fifty handlers at once each open a span and send; trace ids never cross."""
    tracer, count = trace.get_tracer("application"), 50
    received: dict[str, list[str]] = {}
    done, gate = asyncio.Event(), asyncio.Event()
    waiting: list[str] = []
    client: ProsodyClient

    async def work(_context: Any, message: Any) -> None:
        if message.key.startswith("reply"):
            received[message.key] = parents(message)
            if len(received) == count:
                done.set()
            return
        waiting.append(message.key)
        if len(waiting) == count:
            gate.set()
        await gate.wait()
        with tracer.start_as_current_span(message.key):
            await asyncio.sleep(0)
            await client.send(unique, f"reply-{message.key}", 1, headers=[("traceparent", SENDER)])

    async with await ProsodyClient.create(**options, max_concurrency=count) as made:
        client = made
        await client.subscribe(Script(work))
        roots = {}
        for number in range(count):
            with tracer.start_as_current_span("root") as root:
                roots[f"k{number}"] = root
                await client.send(unique, f"k{number}", 1)
        await done.wait()
    finished = {span.name: span for span in spans.get_finished_spans()}
    for key, root in roots.items():
        own = finished[key]
        assert own.context.trace_id == root.get_span_context().trace_id
        (parent,) = received[f"reply-{key}"]
        assert parent.split("-")[1:3] == [
            f"{own.context.trace_id:032x}",
            f"{own.context.span_id:016x}",
        ]


async def test_an_attempt_is_a_span_of_the_program(
    spans: InMemorySpanExporter, options: dict[str, Any], unique: str
) -> None:
    """Below the record's span, with the exception of a failure; malformed parents are ignored."""
    bad: list[str | bytes] = ["rubbish", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", b"\xff\xfe"]
    done = asyncio.Event()

    async def work(_context: Any, message: Any) -> None:
        payload = getattr(message, "payload", None)  # an excise record has none
        if payload == "last":
            done.set()
        elif payload == "fails":
            raise PermanentError("refused")

    async with await ProsodyClient.create(**options) as client:
        await client.subscribe(Script(work))
        await client.send(unique, "k", "fails", headers=[("traceparent", SENDER)])
        for value in bad:
            await client.send(unique, "k", "odd", headers=[("traceparent", value)])
        await client.excise(unique, "k")
        await client.send(unique, "k", "last")
        await done.wait()
    finished = spans.get_finished_spans()
    assert [span.name for span in finished] == ["on_message"] * 4 + ["on_excise", "on_message"]
    first = finished[0]
    assert first.parent is not None
    assert f"{first.parent.span_id:016x}" == SENDER.split("-")[2]
    assert first.status.status_code is trace.StatusCode.ERROR
    assert [event.name for event in first.events] == ["exception"]
    assert first.attributes is not None
    assert first.attributes["topic"] == unique
    assert first.instrumentation_scope is not None
    assert first.instrumentation_scope.name == "prosody.handler"
    assert all(span.parent is None for span in finished[1:])


async def test_the_caller_is_entered_and_left(
    spans: InMemorySpanExporter, options: dict[str, Any], unique: str
) -> None:
    received: list[list[str]] = []
    done = asyncio.Event()

    async def work(_context: Any, message: Any) -> None:
        received.append(parents(message))
        if len(received) == 3:
            done.set()

    async with await ProsodyClient.create(**options) as client:
        await client.subscribe(Script(work))
        with trace.get_tracer("application").start_as_current_span("outer") as outer:
            await client.send(unique, "k", 1)
        await client.send(unique, "k", 2)
        await client.send(unique, "k", 3, headers=[("traceparent", SENDER)])
        await done.wait()
    assert received == [[form(outer)], [], [SENDER]]
    assert tracing.on


class Sink:
    """A collector that only counts, or never answers."""

    def __init__(self, hangs: bool) -> None:
        self.paths: list[str] = []
        self.gate = threading.Event()
        sink = self

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                if hangs:
                    sink.gate.wait(30)
                    return
                sink.paths.append(self.path)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def sink(request: pytest.FixtureRequest) -> Iterator[Sink]:
    made = Sink(getattr(request, "param", False))
    yield made
    made.gate.set()
    made.server.shutdown()
    made.server.server_close()


PROGRAM = """
import asyncio, os, signal, sys, time, prosody
async def main():
    client = await prosody.ProsodyClient.create(
        mock=True, bootstrap_servers="m", group_id="g", source_system="s", subscribed_topics="t")
    await client.send("t", "k", 1)
    if sys.argv[1] == "raise": raise RuntimeError("the end")
    if sys.argv[1] == "term":
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(30)
asyncio.run(main())
"""


def run(end: str, endpoint: str) -> int:
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    environment["OTEL_EXPORTER_OTLP_PROTOCOL"] = "http/protobuf"
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, end], env=environment, timeout=60, capture_output=True
    ).returncode


@pytest.mark.parametrize(
    ("end", "status"), [("normal", 0), ("raise", 1), ("term", -signal.SIGTERM)]
)
def test_spans_are_sent_however_the_program_ends(sink: Sink, end: str, status: int) -> None:
    assert run(end, sink.endpoint) == status
    assert "/v1/traces" in sink.paths
    assert "/v1/metrics" in sink.paths


@pytest.mark.parametrize("sink", [True], indirect=True)
def test_a_collector_that_hangs_holds_the_end_up_for_seconds_only(sink: Sink) -> None:
    assert run("normal", sink.endpoint) == 0  # well within the limit of the run


def test_a_flush_before_the_first_client_is_harmless() -> None:
    prosody.flush_telemetry()
