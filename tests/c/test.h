/* What the tests share: checks that end the program, and a host with one queue in mock mode. */
#ifndef TEST_H
#define TEST_H

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "prosody.h"

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                    \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

#define STATUS(expected, call)                                                                     \
  do {                                                                                             \
    prosody_status got_ = (call);                                                                  \
    if (got_ != (expected)) {                                                                      \
      fprintf(stderr, "%s:%d: %s gave %s, not %s\n", __FILE__, __LINE__, #call,                    \
              prosody_status_name(got_), prosody_status_name(expected));                           \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

#define OK(call) STATUS(PROSODY_OK, call)
#define PENDING(call) STATUS(PROSODY_PENDING, call)

#define MAX_EVENTS 4096

static inline prosody_bytes bytes(const char *text) {
  prosody_bytes b = {text, text == NULL ? 0 : strlen(text)};
  return b;
}

static inline prosody_bytes sized(const void *data, size_t size) {
  prosody_bytes b = {data, size};
  return b;
}

static inline int same(prosody_bytes a, prosody_bytes b) {
  if ((a.data == NULL) != (b.data == NULL)) return 0;
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline prosody_error fresh(void) {
  prosody_error error;
  memset(&error, 0, sizeof error);
  error.size = sizeof error;
  return error;
}

/* A host: what came out of its queue, and how it ends events. */
typedef struct host {
  prosody_queue *queue;
  prosody_client *client;
  prosody_handler handler;
  int hold;   /* do not end events */
  int result; /* how to end them */
  int events; /* how many came */
  uint64_t invocations[MAX_EVENTS];
  char *keys[MAX_EVENTS]; /* with the offset: "key@3"; of a timer "key!" */
  int excises, timers, cancels, fatals, logs;
  int64_t seconds[MAX_EVENTS]; /* of timers */
  int32_t reason;
  uint32_t retry;
  uint64_t tags[MAX_EVENTS];
  prosody_status statuses[MAX_EVENTS];
  int64_t values[MAX_EVENTS];
  char texts[64][256];
  void *data; /* of the last completion */
  size_t data_size;
  int completions;
  void (*inspect)(const prosody_message *message);
} host;

static inline prosody_status end(uint64_t invocation, int32_t result) {
  prosody_outcome outcome;
  memset(&outcome, 0, sizeof outcome);
  outcome.size = sizeof outcome;
  outcome.result = result;
  outcome.invocation = invocation;
  if (result != PROSODY_RESULT_SUCCESS) outcome.error_text = bytes("as the test wants");
  return prosody_complete(&outcome, 1, NULL);
}

static inline void take_event(void *user_data, const prosody_message *message) {
  host *h = user_data;
  char key[256];
  CHECK(h->events < MAX_EVENTS);
  snprintf(key, sizeof key, "%.*s@%" PRId64, (int)message->key.size,
           (const char *)message->key.data, message->offset);
  h->keys[h->events] = strdup(key);
  h->invocations[h->events++] = message->invocation;
  h->retry = message->retry;
  if (h->inspect != NULL) h->inspect(message);
  if (!h->hold) OK(end(message->invocation, h->result));
}

static inline void take_excise(void *user_data, const prosody_message *message) {
  ((host *)user_data)->excises++;
  CHECK(message->payload.data == NULL);
  take_event(user_data, message);
}

static inline void take_timer(void *user_data, const prosody_timer *timer) {
  host *h = user_data;
  char key[256];
  CHECK(h->events < MAX_EVENTS && timer->second >= 0);
  snprintf(key, sizeof key, "%.*s!", (int)timer->key.size, (const char *)timer->key.data);
  h->keys[h->events] = strdup(key);
  h->seconds[h->timers++] = timer->second;
  h->invocations[h->events++] = timer->invocation;
  h->retry = timer->retry;
  if (!h->hold) OK(end(timer->invocation, h->result));
}

static inline void take_cancel(void *user_data, uint64_t invocation, int32_t reason) {
  host *h = user_data;
  (void)invocation;
  h->cancels++;
  h->reason = reason;
}

static inline void take_completion(void *user_data, const prosody_completion *completion) {
  host *h = user_data;
  CHECK(h->completions < MAX_EVENTS);
  if (h->completions < 64)
    snprintf(h->texts[h->completions], 256, "%.*s", (int)completion->text.size,
             (const char *)completion->text.data);
  free(h->data);
  h->data_size = completion->data.size;
  h->data = h->data_size == 0 ? NULL : malloc(h->data_size);
  if (h->data_size > 0) memcpy(h->data, completion->data.data, h->data_size);
  h->tags[h->completions] = completion->tag;
  h->values[h->completions] = completion->value;
  h->statuses[h->completions++] = completion->status;
}

static inline void take_log(void *user_data, const prosody_log *line) {
  host *h = user_data;
  h->logs++;
  if (getenv("TEST_VERBOSE") != NULL)
    fprintf(stderr, "log %d %.*s: %.*s %.*s\n", line->level, (int)line->target.size,
            (const char *)line->target.data, (int)line->text.size, (const char *)line->text.data,
            (int)line->fields.size, (const char *)line->fields.data);
}

static inline void take_fatal(void *user_data, prosody_bytes text) {
  CHECK(text.size > 0);
  ((host *)user_data)->fatals++;
}

static inline void host_init(host *h) {
  memset(h, 0, sizeof *h);
  h->handler.size = sizeof h->handler;
  h->handler.user_data = h;
  h->handler.on_message = take_event;
  h->handler.on_excise = take_excise;
  h->handler.on_timer = take_timer;
  h->handler.on_cancel = take_cancel;
  h->handler.on_completion = take_completion;
  h->handler.on_log = take_log;
  h->handler.on_fatal = take_fatal;
  OK(prosody_queue_create(&h->queue, NULL));
}

static inline void host_free(host *h) {
  prosody_queue_destroy(h->queue);
  for (int i = 0; i < h->events; i++) free(h->keys[i]);
  free(h->data);
}

static inline void host_step(host *h, int timeout_ms) {
  prosody_error error = fresh();
  prosody_status status = prosody_queue_dispatch(h->queue, &h->handler, timeout_ms, NULL, &error);
  if (status != PROSODY_OK) fprintf(stderr, "dispatch: %s\n", error.text);
  CHECK(status == PROSODY_OK);
}

#define UNTIL(h, condition)                                                                        \
  do {                                                                                             \
    int64_t limit_ = now_ms() + 60000;                                                             \
    while (!(condition)) {                                                                         \
      CHECK(now_ms() < limit_ && sizeof(#condition) > 0);                                          \
      host_step(h, 50);                                                                            \
    }                                                                                              \
  } while (0)

/* Waits for a completion and gives its status. */
static inline prosody_status await(host *h, uint64_t tag) {
  for (int64_t limit = now_ms() + 60000;;) {
    for (int i = h->completions - 1; i >= 0; i--) {
      if (h->tags[i] == tag) return h->statuses[i];
    }
    if (now_ms() > limit) {
      fprintf(stderr, "no completion of tag %" PRIu64 "\n", tag);
      exit(1);
    }
    host_step(h, 50);
  }
}

static inline void set(prosody_config *config, const char *name, const char *value) {
  OK(prosody_config_set(config, bytes(name), bytes(value), NULL));
}

/* A configuration of a client in mock mode that consumes a topic. */
static inline prosody_config *mock_config(const char *topic) {
  prosody_config *config;
  OK(prosody_config_create(&config, NULL));
  set(config, "mock", "true");
  set(config, "bootstrap_servers", "embedded:1");
  set(config, "group_id", topic);
  set(config, "source_system", "tests");
  set(config, "subscribed_topics", topic);
  set(config, "cassandra_nodes", "embedded");
  set(config, "mode", "best-effort");
  set(config, "send_timeout", "60s"); /* the machine may be busy */
  return config;
}

/* Makes a client of a host in mock mode. */
static inline void host_client(host *h, prosody_config *config) {
  prosody_error error = fresh();
  prosody_status status = prosody_client_create(config, h->queue, 1, &h->client, &error);
  if (status != PROSODY_PENDING) fprintf(stderr, "client: %s\n", error.text);
  CHECK(status == PROSODY_PENDING);
  STATUS(PROSODY_OK, await(h, 1));
}

static inline prosody_status send_record(prosody_client *client, prosody_queue *queue, uint64_t tag,
                                         const char *topic, prosody_bytes key,
                                         prosody_bytes payload) {
  prosody_outgoing out;
  memset(&out, 0, sizeof out);
  out.size = sizeof out;
  out.topic = bytes(topic);
  out.key = key;
  out.payload = payload;
  return payload.data == NULL ? prosody_client_excise(client, queue, tag, &out, NULL)
                              : prosody_client_send(client, queue, tag, &out, NULL);
}

/* Counts what is left of a kind ("queue", "client", ...; "invocations"), by a client's stats. */
static inline long left(prosody_client *client, const char *kind) {
  char stats[65536], name[64];
  size_t size = 0;
  OK(prosody_client_stats(client, stats, sizeof stats - 1, &size, NULL));
  stats[size] = 0;
  const char *library = strstr(stats, "\"library\"");
  CHECK(library != NULL);
  snprintf(name, sizeof name, "\"%s\":", kind);
  const char *at = strstr(library, name);
  return at == NULL ? 0 : atol(at + strlen(name));
}

#endif
