"""A program with an OpenTelemetry SDK of its own that sends one record within a span, and prints that span."""

from __future__ import annotations

import asyncio
import sys

import prosody
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider


async def main(topic: str) -> None:
    async with await prosody.ProsodyClient.create() as client:
        with trace.get_tracer("shop").start_as_current_span("checkout") as span:
            await client.send(topic, "order-1", {"n": 1})
        place = span.get_span_context()
        print(f"SPAN {place.trace_id:032x} {place.span_id:016x}")


trace.set_tracer_provider(TracerProvider())
asyncio.run(main(sys.argv[1]))
