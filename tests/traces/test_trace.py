"""One trace from a Python sender through a Ruby handler, its timer and its deferred retry to a C handler.

Real Kafka and Cassandra; each program exports to a collector of the test.
"""

from __future__ import annotations

import gzip
import http.server
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SERVERS = "localhost:9094"
LIMIT_S = 90


class Collector:
    """Receives spans by OTLP over HTTP."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        collector = self

        class Receiver(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path.endswith("/v1/traces"):
                    collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, request: Any) -> None:
        for resource in request.resource_spans:
            service = next(
                entry.value.string_value for entry in resource.resource.attributes if entry.key == "service.name"
            )
            for scope in resource.scope_spans:
                self.spans += [
                    {
                        "service": service, "name": span.name, "trace": span.trace_id.hex(), "id": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "links": [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                    }
                    for span in scope.spans
                ]  # fmt: skip

    def one(self, service: str, name: str) -> dict[str, Any]:
        found = [span for span in self.spans if (span["service"], span["name"]) == (service, name)]
        assert len(found) == 1, (
            f"{len(found)} spans {name} of {service} in {[(s['service'], s['name']) for s in self.spans]}"
        )
        return found[0]


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(scope="module")
def handler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The member in C."""
    made = tmp_path_factory.mktemp("traces") / "handler"
    lib = ROOT / "build" / "lib"
    subprocess.run(
        ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", str(HERE / "handler.c"),
         "-o", str(made), f"-L{lib}", "-lprosody", f"-Wl,-rpath,{lib}"],
        check=True,
    )  # fmt: skip
    return made


@pytest.mark.parametrize("relation", ["child", "follows_from"])
def test_one_trace_crosses_all_languages(collector: Collector, handler: Path, relation: str) -> None:
    name = f"trace-{uuid.uuid4().hex[:12]}"
    first, second = f"{name}-orders", f"{name}-bills"
    admin = AdminClient({"bootstrap.servers": SERVERS})
    for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in (first, second)]).values():
        future.result(30)

    def start(command: list[str], service: str, **options: str) -> subprocess.Popen[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PROSODY_", "OTEL_"))}
        environment |= {f"PROSODY_{key.upper()}": value for key, value in options.items()}
        environment |= {
            "PROSODY_BOOTSTRAP_SERVERS": SERVERS, "PROSODY_CASSANDRA_NODES": "localhost:9042",
            "PROSODY_CASSANDRA_KEYSPACE": "prosody_traces", "PROSODY_PROBE_PORT": "none",
            "PROSODY_TELEMETRY_ENABLED": "false",
            "PROSODY_SOURCE_SYSTEM": service, "PROSODY_TIMER_SPANS": relation, "PROSODY_PEER_BIND_ADDRESS": "127.0.0.1:0",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server.server_port}", "OTEL_SERVICE_NAME": service,
            "PYTHONPATH": str(ROOT / "bindings" / "python"),
        }  # fmt: skip
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    programs = [
        start([str(handler)], "c", group_id=f"{name}-c", subscribed_topics=second),
        start(["ruby", "-I", str(ROOT / "bindings/ruby/lib"), str(HERE / "handler.rb"), second], "ruby",
              group_id=f"{name}-ruby", subscribed_topics=first),
        start([sys.executable, str(HERE / "sender.py"), first], "python"),
    ]  # fmt: skip
    try:
        told = [program.communicate(timeout=LIMIT_S)[0] for program in programs]
    finally:
        for program in programs:
            program.kill()
    assert [program.returncode for program in programs] == [0, 0, 0]

    checkout = told[2].split()[1:3]
    sent = collector.one("python", "send")
    assert [sent["trace"], sent["parent"]] == checkout, "the send is a child of the program's own span"
    received, scheduled = collector.one("ruby", "receive"), collector.one("ruby", "schedule")
    trigger, retried = collector.one("ruby", "trigger"), collector.one("ruby", "timer_defer.load")
    onward, last = collector.one("ruby", "send"), collector.one("c", "receive")
    for child, parent in ((received, sent), (scheduled, received), (onward, retried), (last, onward)):
        assert (child["trace"], child["parent"]) == (parent["trace"], parent["id"]), (
            f"{child['name']} is not below {parent['name']}"
        )
    assert told[0].startswith(f"TRACE 00-{last['trace']}-{last['id']}-"), "what the C handler is told"
    for span in (trigger, retried):
        if relation == "child":
            assert (span["trace"], span["parent"], span["links"]) == (sent["trace"], scheduled["id"], [])
        else:
            assert (span["parent"], span["links"]) == ("", [(scheduled["trace"], scheduled["id"])])
            assert span["trace"] != sent["trace"]
    assert (trigger["trace"] == retried["trace"]) == (relation == "child")
