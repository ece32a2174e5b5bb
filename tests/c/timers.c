/* Timers from a handler's hands: the transaction, immediate changes, lists, retries, the clock. */
#include "test.h"

enum { FAR = 1000000 };

static void start(host *h, const char *topic) {
  prosody_config *config = mock_config(topic);
  set(config, "retry_base", "1ms");
  set(config, "max_retry_delay", "2ms");
  set(config, "mode", "pipeline");
  set(config, "defer_enabled", "false");
  host_init(h);
  host_client(h, config);
  prosody_config_destroy(config);
  PENDING(prosody_client_subscribe(h->client, h->queue, 2, NULL));
  OK(await(h, 2));
  h->hold = 1;
}

static void finish(host *h) {
  h->hold = 0;
  PENDING(prosody_client_shutdown(h->client, h->queue, 99, NULL));
  OK(await(h, 99));
  prosody_client_destroy(h->client);
  host_free(h);
}

/* Has a message of a key handled, and gives its invocation. */
static uint64_t handle(host *h, const char *topic, const char *key) {
  int before = h->events;
  PENDING(send_record(h->client, h->queue, 50, topic, bytes(key), bytes("{}")));
  UNTIL(h, h->events == before + 1);
  return h->invocations[before];
}

/* time() may lag behind by a tick. */
static int64_t now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec;
}

/* Checks what the list says. */
static void listed(host *h, uint64_t at, size_t count, const int64_t *expected) {
  int64_t seconds[8];
  size_t size = 99;
  OK(prosody_timer_list(at, h->queue, 9, seconds, 8, &size, NULL));
  CHECK(size == count);
  for (size_t i = 0; i < count; i++) CHECK(seconds[i] == expected[i]);
  if (count == 0) return;
  STATUS(PROSODY_SHORT, prosody_timer_list(at, h->queue, 9, seconds, count - 1, &size, NULL));
  CHECK(size == count);
  STATUS(PROSODY_SHORT, prosody_timer_list(at, h->queue, 9, NULL, 0, &size, NULL));
}

#define LIST(h, at, ...)                                                                           \
  do {                                                                                             \
    int64_t expected_[] = {0, __VA_ARGS__};                                                        \
    listed(h, at, sizeof expected_ / sizeof *expected_ - 1, expected_ + 1);                        \
  } while (0)

/* Changes are seen at once, belong to the attempt, and end with it. */
static void transaction(void) {
  host h;
  prosody_error error = fresh();
  start(&h, "transaction");
  int64_t far = now_s() + FAR;
  uint64_t at = handle(&h, "transaction", "k");
  LIST(&h, at);
  OK(prosody_timer_schedule(at, NULL, 0, far + 2, 0, NULL));
  OK(prosody_timer_schedule(at, NULL, 0, far + 1, 0, NULL));
  OK(prosody_timer_schedule(at, NULL, 0, far + 1, 0, NULL));
  OK(prosody_timer_schedule(at, NULL, 0, UINT32_MAX, 0, NULL));
  LIST(&h, at, far + 1, far + 2, UINT32_MAX);
  OK(prosody_timer_unschedule(at, NULL, 0, far + 2, 0, NULL));
  OK(prosody_timer_unschedule(at, NULL, 0, far + 3, 0, NULL));
  LIST(&h, at, far + 1, UINT32_MAX);
  OK(prosody_timer_schedule(at, NULL, 0, far, PROSODY_TIMER_CLEAR, NULL));
  LIST(&h, at, far);
  OK(end(at, PROSODY_RESULT_TRANSIENT));
  STATUS(PROSODY_ERR_SETTLED, prosody_timer_schedule(at, NULL, 0, far, 0, &error));
  CHECK(strstr(error.text, "no longer valid") != NULL);
  STATUS(PROSODY_ERR_SETTLED, prosody_timer_unschedule(at, NULL, 0, far, 0, NULL));
  STATUS(PROSODY_ERR_SETTLED, prosody_timer_clear(at, NULL, 0, 0, NULL));
  size_t count;
  STATUS(PROSODY_ERR_SETTLED, prosody_timer_list(at, h.queue, 9, NULL, 0, &count, NULL));

  UNTIL(&h, h.events == 2); /* the retry */
  at = h.invocations[1];
  LIST(&h, at);
  OK(prosody_timer_schedule(at, NULL, 0, far, 0, NULL));
  OK(end(at, PROSODY_RESULT_SUCCESS));
  at = handle(&h, "transaction", "k");
  LIST(&h, at, far);
  OK(prosody_timer_clear(at, NULL, 0, 0, NULL));
  LIST(&h, at);
  OK(end(at, PROSODY_RESULT_PERMANENT));
  at = handle(&h, "transaction", "other");
  LIST(&h, at);
  OK(end(at, PROSODY_RESULT_SUCCESS));
  at = handle(&h, "transaction", "k");
  LIST(&h, at, far);
  OK(end(at, PROSODY_RESULT_SUCCESS));
  finish(&h);
}

/* An immediate change is durable when its call has ended, and the attempt waits for that. */
static void immediate(void) {
  host h;
  start(&h, "immediate");
  const uint32_t now = PROSODY_TIMER_IMMEDIATE;
  int64_t far = now_s() + FAR;
  uint64_t at = handle(&h, "immediate", "k");
  PENDING(prosody_timer_schedule(at, h.queue, 10, far, now, NULL));
  OK(await(&h, 10));
  PENDING(prosody_timer_schedule(at, h.queue, 11, far + 1, now, NULL));
  OK(end(at, PROSODY_RESULT_PERMANENT)); /* before its answer is read */
  OK(await(&h, 11));
  at = handle(&h, "immediate", "k");
  LIST(&h, at, far, far + 1);
  PENDING(prosody_timer_unschedule(at, h.queue, 12, far, now, NULL));
  OK(await(&h, 12));
  LIST(&h, at, far + 1);
  PENDING(prosody_timer_schedule(at, h.queue, 13, far + 2, now | PROSODY_TIMER_CLEAR, NULL));
  OK(await(&h, 13));
  LIST(&h, at, far + 2);
  PENDING(prosody_timer_clear(at, h.queue, 14, now, NULL));
  OK(await(&h, 14));
  OK(end(at, PROSODY_RESULT_PERMANENT));
  at = handle(&h, "immediate", "k");
  LIST(&h, at);
  OK(end(at, PROSODY_RESULT_SUCCESS));
  STATUS(PROSODY_ERR_SETTLED, prosody_timer_clear(at, h.queue, 15, now, NULL));
  finish(&h);
}

/* A timer fires, once; it is an event like others. */
static void fires(void) {
  host h;
  start(&h, "fires");
  int64_t soon = now_s() + 1;
  uint64_t at = handle(&h, "fires", "key");
  OK(prosody_timer_schedule(at, NULL, 0, soon, 0, NULL));
  OK(prosody_timer_schedule(at, NULL, 0, soon + FAR, 0, NULL));
  OK(end(at, PROSODY_RESULT_SUCCESS));
  UNTIL(&h, h.timers == 1);
  CHECK(h.seconds[0] == soon && now_s() >= soon && strcmp(h.keys[1], "key!") == 0);
  CHECK(h.retry == 0);
  at = h.invocations[1];
  LIST(&h, at, soon + FAR);
  OK(prosody_should_cancel(at));
  OK(end(at, PROSODY_RESULT_TRANSIENT));
  UNTIL(&h, h.timers == 2);
  CHECK(h.retry == 1 && h.seconds[1] == soon);
  OK(end(h.invocations[2], PROSODY_RESULT_SUCCESS));

  /* Without a callback it fails and comes again. */
  at = handle(&h, "fires", "key");
  LIST(&h, at, soon + FAR);
  h.handler.on_timer = NULL;
  OK(prosody_timer_schedule(at, NULL, 0, 1, PROSODY_TIMER_CLEAR, NULL));
  OK(end(at, PROSODY_RESULT_SUCCESS));
  for (uint32_t taken = 0; taken == 0;)
    OK(prosody_queue_dispatch(h.queue, &h.handler, 100, &taken, NULL));
  h.handler.on_timer = take_timer;
  UNTIL(&h, h.timers == 3);
  CHECK(h.retry >= 1 && h.seconds[2] == 1);
  OK(end(h.invocations[4], PROSODY_RESULT_SUCCESS));
  finish(&h);
}

/* The clock of mock mode jumps: what is far fires now. */
static void jumps(void) {
  host h;
  start(&h, "jumps");
  int64_t day = now_s() + 24 * 3600;
  uint64_t at = handle(&h, "jumps", "k");
  OK(prosody_timer_schedule(at, NULL, 0, day, 0, NULL));
  OK(prosody_timer_schedule(at, NULL, 0, day + 3600, 0, NULL));
  OK(end(at, PROSODY_RESULT_SUCCESS));
  at = handle(&h, "jumps", "k"); /* now they are durable */
  LIST(&h, at, day, day + 3600);
  OK(end(at, PROSODY_RESULT_SUCCESS));
  h.hold = 0;
  OK(prosody_mock_advance(bytes("embedded:1"), 24 * 3600 * 1000, NULL));
  UNTIL(&h, h.timers == 1);
  CHECK(h.seconds[0] == day);
  for (int i = 0; i < 3; i++) host_step(&h, 50);
  CHECK(h.timers == 1);
  OK(prosody_mock_advance(bytes(" embedded:1,"), 3600 * 1000, NULL));
  UNTIL(&h, h.timers == 2);
  finish(&h);
}

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static int traced;

static void on_timer(void *user_data, const prosody_timer *timer) {
  CHECK(same(timer->topic, bytes("traces")) && same(timer->key, bytes("k")));
  CHECK(same(timer->trace, bytes(PARENT)) && same(timer->state, bytes("a=b")));
  traced++;
  take_timer(user_data, timer);
}

/* A timer carries the trace context of the message that scheduled it, also when it is retried. */
static void traces(void) {
  host h;
  start(&h, "traces");
  h.handler.on_timer = on_timer;
  prosody_header headers[] = {{bytes("traceparent"), bytes(PARENT)},
                              {bytes("tracestate"), bytes("a=b")}};
  prosody_outgoing out = {.size = sizeof out,
                          .topic = bytes("traces"),
                          .key = bytes("k"),
                          .payload = bytes("{}"),
                          .headers = headers,
                          .headers_count = 2};
  PENDING(prosody_client_send(h.client, h.queue, 50, &out, NULL));
  UNTIL(&h, h.events == 1);
  OK(prosody_timer_schedule(h.invocations[0], NULL, 0, 1, 0, NULL));
  OK(end(h.invocations[0], PROSODY_RESULT_SUCCESS));
  UNTIL(&h, traced == 1);
  OK(prosody_timer_schedule(h.invocations[1], NULL, 0, 2, 0, NULL));
  OK(end(h.invocations[1], PROSODY_RESULT_SUCCESS));
  UNTIL(&h, traced == 2);
  OK(end(h.invocations[2], PROSODY_RESULT_TRANSIENT));
  UNTIL(&h, traced == 3);
  OK(end(h.invocations[3], PROSODY_RESULT_SUCCESS));
  finish(&h);
}

int main(void) {
  transaction();
  immediate();
  fires();
  jumps();
  traces();
  return 0;
}
