/* Counts the messages of each key, without a database of its own.

   The count becomes durable together with the event, so that each message counts once, whatever fails.
   Other services read the counts by prosody_reader_open with the subsystem and the collection.

   Set PROSODY_BOOTSTRAP_SERVERS, PROSODY_CASSANDRA_NODES, PROSODY_GROUP_ID and
   PROSODY_SUBSCRIBED_TOPICS, and run it. */
#include "service.h"

static const char *const OPTIONS[] = {
    "subsystem", "counter", "state_collections",
    "[{\"name\": \"count\", \"kind\": \"value\", \"published\": true}]", NULL};

static prosody_status bind(service *s, uint64_t invocation, uint64_t *count) {
  prosody_collection value = {
      .size = sizeof value, .kind = PROSODY_KIND_VALUE, .name = text("count")};
  return prosody_state_bind(invocation, &value, count, &s->error);
}

static prosody_status on_message(service *s, const prosody_message *message) {
  char number[32] = "";
  uint64_t count;
  size_t size = 0;
  TRY(bind(s, message->invocation, &count));
  TRY(await_bytes(
      s, prosody_value_get(count, s->answers, 0, number, sizeof number - 1, &size, &s->error),
      number, sizeof number - 1, &size));
  snprintf(number, sizeof number, "%llu", strtoull(number, NULL, 10) + 1);
  prosody_item item = {.size = sizeof item, .json = text(number)};
  return await(s, prosody_value_set(count, s->answers, 0, &item, &s->error));
}

static prosody_status on_excise(service *s, const prosody_message *message) {
  uint64_t count;
  TRY(bind(s, message->invocation, &count));
  return await(s, prosody_state_clear(count, s->answers, 0, &s->error));
}

static prosody_status on_timer(service *s, const prosody_timer *timer) {
  (void)s, (void)timer; /* it sets none */
  return PROSODY_OK;
}

int main(void) {
  service s = {.message = on_message, .excise = on_excise, .timer = on_timer};
  return serve(&s, OPTIONS);
}
