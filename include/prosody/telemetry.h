/* Part of prosody.h, which includes it: traces, and the export to an OpenTelemetry collector.
 *
 * What is exported. The variables OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_PROTOCOL (grpc,
 * or http/protobuf, which is the default) and the other OTEL_ variables of the OTLP exporters and the
 * SDK say where traces, metrics and log lines go. They are read when the first client is created.
 * All clients of the process share one export. Without an endpoint nothing is exported.
 *
 * How spans join. The trace and state of a message or timer record name the core's span for the
 * event: make the host's spans children of it. Then tell the library which span calls belong to, with
 * prosody_trace_enter. Without an exporter the context of the record's sender passes through both ways,
 * so that traces of hosts stay whole. */
#ifndef PROSODY_H
#error "include prosody.h"
#endif
#ifndef PROSODY_TELEMETRY_H
#define PROSODY_TELEMETRY_H

/* Makes a span the current one of this thread, by its W3C traceparent and tracestate: later calls of
   the thread that send, change timers or use collections are children of it, until the next call of
   this function. A null or malformed `parent` is none: a send then belongs to what its traceparent
   header says, and a call of an invocation to the core's own span for the event. A thread that never
   calls this pays nothing. */
PROSODY_API prosody_status prosody_trace_enter(prosody_bytes parent, prosody_bytes state);

/* Sends what has been recorded so far to the collector. Complete when that is done, or after 5 s:
   then PROSODY_ERR_TIMEOUT. PROSODY_ERR_INTERNAL: the collector refused it. Without an exporter it
   is complete at once. */
PROSODY_API prosody_status prosody_telemetry_flush(prosody_queue *queue, uint64_t tag,
                                                   prosody_error *error);

/* The same, and then ends the export for good: what is recorded later is dropped. Calling it again
   is fine. Call it before the process ends, after the clients are shut down. */
PROSODY_API prosody_status prosody_telemetry_shutdown(prosody_queue *queue, uint64_t tag,
                                                      prosody_error *error);

#endif
