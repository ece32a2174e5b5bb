/* How spans join at the boundary, without an exporter: what one side names reaches the other. */
#include <pthread.h>

#include "test.h"

#define SENDER "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define ENTERED "00-1bf7651916cd43dd8448eb211c80319c-c8ad6b7169203332-00"

static char trace[256], state[1024];
static int parents;

static void keep(char *to, size_t capacity, prosody_bytes from) {
  CHECK(from.size < capacity);
  memcpy(to, from.data == NULL ? "" : from.data, from.size);
  to[from.size] = 0;
}

static void inspect(const prosody_message *message) {
  keep(trace, sizeof trace, message->trace);
  keep(state, sizeof state, message->state);
  parents = 0;
  for (uint32_t i = 0; i < message->headers_count; i++) {
    prosody_bytes name, value;
    OK(prosody_message_header(message, i, &name, &value));
    parents += same(name, bytes("traceparent"));
  }
}

static void on_timer(void *user_data, const prosody_timer *timer) {
  keep(trace, sizeof trace, timer->trace);
  keep(state, sizeof state, timer->state);
  take_timer(user_data, timer);
}

/* Sends with a traceparent of the host, or none, and gives the invocation. */
static uint64_t deliver(host *h, const char *parent, const char *second) {
  prosody_header headers[] = {{bytes("traceparent"), bytes(parent)},
                              {bytes("traceparent"), bytes(second)}};
  prosody_outgoing out = {.size = sizeof out,
                          .topic = bytes("telemetry"),
                          .key = bytes("k"),
                          .payload = bytes("{}"),
                          .headers = headers,
                          .headers_count = second   ? 2
                                           : parent ? 1
                                                    : 0};
  int before = h->events;
  PENDING(prosody_client_send(h->client, h->queue, 50, &out, NULL));
  OK(await(h, 50));
  UNTIL(h, h->events == before + 1);
  return h->invocations[h->events - 1];
}

static void done(uint64_t invocation) { OK(end(invocation, PROSODY_RESULT_SUCCESS)); }

static void *elsewhere(void *from) {
  host *h = from;
  done(deliver(h, NULL, NULL));
  CHECK(trace[0] == 0); /* a span belongs to the thread that entered it */
  OK(prosody_trace_enter(bytes(SENDER), bytes(NULL)));
  done(deliver(h, NULL, NULL));
  CHECK(strcmp(trace, SENDER) == 0 && parents == 1);
  return NULL;
}

int main(void) {
  host h;
  host_init(&h);
  prosody_config *config = mock_config("telemetry");
  h.hold = 1;
  h.inspect = inspect;
  h.handler.on_timer = on_timer;
  PENDING(prosody_telemetry_flush(h.queue, 1, NULL)); /* before there is a client */
  OK(await(&h, 1));
  host_client(&h, config);
  PENDING(prosody_client_subscribe(h.client, h.queue, 2, NULL));
  OK(await(&h, 2));

  /* None; the sender's header; of several the first; rubbish is none. */
  done(deliver(&h, NULL, NULL));
  CHECK(trace[0] == 0 && state[0] == 0 && parents == 0);
  done(deliver(&h, SENDER, NULL));
  CHECK(strcmp(trace, SENDER) == 0 && parents == 1);
  done(deliver(&h, SENDER, ENTERED));
  CHECK(strcmp(trace, SENDER) == 0 && parents == 1);
  const char *bad[] = {"rubbish", "", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                       "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "\xff\xfe"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    done(deliver(&h, bad[i], NULL));
    CHECK(trace[0] == 0);
  }

  /* A span that was entered replaces the header, until the thread leaves it. */
  OK(prosody_trace_enter(bytes(ENTERED), bytes("a=b")));
  uint64_t invocation = deliver(&h, SENDER, SENDER);
  CHECK(strcmp(trace, ENTERED) == 0 && strcmp(state, "a=b") == 0 && parents == 1);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    OK(prosody_trace_enter(bytes(bad[i]), bytes(NULL)));
    OK(prosody_timer_schedule(invocation, NULL, 0, 1, 0, NULL));
  }
  done(invocation);
  UNTIL(&h, h.timers == 1);
  CHECK(strcmp(trace, ENTERED) == 0 && strcmp(state, "a=b") == 0); /* of the invocation */
  invocation = h.invocations[h.events - 1];
  OK(prosody_trace_enter(bytes(SENDER), bytes(NULL)));
  OK(prosody_timer_schedule(invocation, NULL, 0, 2, 0, NULL));
  done(invocation);
  UNTIL(&h, h.timers == 2);
  CHECK(strcmp(trace, SENDER) == 0 && state[0] == 0); /* of the thread */
  done(h.invocations[h.events - 1]);

  static char longest[2048];
  memset(longest, 'x', sizeof longest);
  OK(prosody_trace_enter(bytes(ENTERED), sized(longest, sizeof longest)));
  done(deliver(&h, NULL, NULL));
  CHECK(strcmp(trace, ENTERED) == 0 && state[0] == 0);
  OK(prosody_trace_enter(sized(longest, sizeof longest), bytes("a=b")));
  done(deliver(&h, NULL, NULL));
  CHECK(trace[0] == 0);
  STATUS(PROSODY_ERR_ARGUMENT, prosody_trace_enter(sized(NULL, 1), bytes(NULL)));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_trace_enter(bytes(NULL), sized(NULL, 1)));

  OK(prosody_trace_enter(bytes(ENTERED), bytes(NULL)));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, elsewhere, &h) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  done(deliver(&h, NULL, NULL));
  CHECK(strcmp(trace, ENTERED) == 0);

  PENDING(prosody_client_shutdown(h.client, h.queue, 3, NULL));
  OK(await(&h, 3));
  for (uint64_t tag = 4; tag < 8; tag++) {
    PENDING(tag % 2 ? prosody_telemetry_flush(h.queue, tag, NULL)
                    : prosody_telemetry_shutdown(h.queue, tag, NULL));
    OK(await(&h, tag));
  }
  prosody_client_destroy(h.client);
  prosody_config_destroy(config);
  host_free(&h);
  return 0;
}
