/* What the tests of the examples share: a service in memory, with a clock that the test moves. */
#ifndef KIT_H
#define KIT_H

#include "service.h"

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not true: %s (%s)\n", __FILE__, __LINE__, #condition,                \
              kit.service.error.text);                                                             \
      exit(EXIT_FAILURE);                                                                          \
    }                                                                                              \
  } while (0)

static struct {
  service service;
  const char *const *options;
  const char *servers;
} kit;

static inline void kit_open(void) { CHECK(service_open(&kit.service, kit.options) == PROSODY_OK); }

/* Starts the service with its options, in a world of its own. */
static inline void kit_start(service made, const char *const *options, const char *servers) {
  kit.service = made;
  kit.options = options;
  kit.servers = servers;
  setenv("PROSODY_MOCK", "true", 1);
  setenv("PROSODY_BOOTSTRAP_SERVERS", servers, 1);
  setenv("PROSODY_GROUP_ID", "service", 1);
  setenv("PROSODY_SOURCE_SYSTEM", "test", 1);
  setenv("PROSODY_SUBSCRIBED_TOPICS", "orders", 1);
  kit_open();
}

static inline void kit_restart(void) {
  CHECK(service_close(&kit.service) == PROSODY_OK);
  kit_open();
}

static inline void kit_stop(void) {
  CHECK(service_close(&kit.service) == PROSODY_OK);
  CHECK(prosody_mock_forget(text(kit.servers), NULL) == PROSODY_OK);
}

/* Sends a message, or an excise record when there is no payload. */
static inline void kit_send(const char *key, const char *payload) {
  service *s = &kit.service;
  prosody_outgoing record = {.size = sizeof record, .topic = text("orders"), .key = text(key)};
  prosody_status begun;
  if (payload == NULL) {
    begun = prosody_client_excise(s->client, s->queue, TAG_OTHER, &record, &s->error);
  } else {
    record.payload = text(payload);
    begun = prosody_client_send(s->client, s->queue, TAG_OTHER, &record, &s->error);
  }
  CHECK(service_until(s, TAG_OTHER, begun) == PROSODY_OK);
}

/* Handles events until nothing is left to do. */
static inline void kit_idle(void) {
  service *s = &kit.service;
  prosody_bytes servers = text(kit.servers);
  CHECK(service_until(s, TAG_OTHER,
                      prosody_mock_idle(servers, s->queue, TAG_OTHER, 10000, &s->error)) ==
        PROSODY_OK);
}

/* Lets time pass. */
static inline void kit_advance(int64_t seconds) {
  kit_idle();
  CHECK(prosody_mock_advance(text(kit.servers), seconds * 1000, NULL) == PROSODY_OK);
  kit_idle();
}

/* The payloads of a topic's records, one a line. */
static inline const char *kit_sent(const char *topic) {
  static _Alignas(8) char buffer[65536];
  static char lines[65536];
  prosody_message message;
  size_t size = 0, end = 0;
  uint32_t count;
  prosody_status status = prosody_mock_records(text(kit.servers), text(topic), 0, buffer,
                                               sizeof buffer, &size, &count, NULL);
  CHECK(status == PROSODY_OK || status == PROSODY_END);
  for (size_t at = 0; at < size; at += ((prosody_record *)(buffer + at))->size) {
    CHECK(prosody_message_decode((prosody_record *)(buffer + at), &message) == PROSODY_OK);
    end += (size_t)snprintf(lines + end, sizeof lines - end, "%.*s\n", (int)message.payload.size,
                            (const char *)message.payload.data);
  }
  lines[end] = 0;
  return lines;
}

/* Reads a value that a subsystem publishes; empty when there is none. */
static inline const char *kit_read(const char *subsystem, const char *name, const char *key) {
  static char found[256];
  service *s = &kit.service;
  prosody_reader *reader;
  prosody_collection value = {
      .size = sizeof value, .kind = PROSODY_KIND_VALUE, .name = text(name), .read_cache_ms = -1};
  uint64_t state;
  size_t size = 0;
  CHECK(prosody_reader_open(s->client, text(subsystem), &value, &reader, &s->error) == PROSODY_OK);
  CHECK(prosody_reader_bind(reader, text(key), &state, &s->error) == PROSODY_OK);
  prosody_status status = await_bytes(
      s, prosody_value_get(state, s->answers, 0, found, sizeof found - 1, &size, &s->error), found,
      sizeof found - 1, &size);
  CHECK(status == PROSODY_OK || status == PROSODY_ABSENT);
  found[status == PROSODY_OK ? size : 0] = 0;
  prosody_state_release(state);
  prosody_reader_destroy(reader);
  return found;
}
#endif
