"""A small OTLP collector: takes spans over gRPC or HTTP and gives them as JSON.

usage: collector.py grpc|http/protobuf. Says "ENDPOINT url"; answers each line of its input by "SPANS [...]".
"""

import concurrent.futures
import gzip
import http.server
import json
import sys
import threading
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

spans: list[dict[str, Any]] = []


def plain(value: Any) -> Any:
    which = value.WhichOneof("value")
    if which == "array_value":
        return [plain(item) for item in value.array_value.values]
    return getattr(value, which) if which else None


def take(request: Any) -> None:
    for resource in request.resource_spans:
        about = {entry.key: plain(entry.value) for entry in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                spans.append(
                    {
                        "name": span.name,
                        "trace": span.trace_id.hex(),
                        "id": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "kind": span.kind,
                        "links": [link.trace_id.hex() for link in span.links],
                        "attributes": {entry.key: plain(entry.value) for entry in span.attributes},
                        "service": about.get("service.name"),
                    }
                )


class Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def Export(self, request: Any, context: Any) -> Any:
        take(request)
        return trace_service_pb2.ExportTraceServiceResponse()


class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def Export(self, request: Any, context: Any) -> Any:
        return metrics_service_pb2.ExportMetricsServiceResponse()


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path.endswith("/v1/traces"):
            take(trace_service_pb2.ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def serve(protocol: str) -> int:
    if protocol != "grpc":
        receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        return receiver.server_port
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    globals()["kept"] = server
    return int(port)


print(f'ENDPOINT "http://127.0.0.1:{serve(sys.argv[1])}"', flush=True)
for _ in sys.stdin:
    print("SPANS", json.dumps(spans), flush=True)
