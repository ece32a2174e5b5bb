/* Leads orders from placed to paid to shipped. One that nobody pays within 15 minutes lapses.

   A shop asks for each step by prosody_client_request with the subsystem "orders", and gets the answer
   once the step is durable. The support desk reads the status, which is published, by
   prosody_reader_open. An excise record deletes what is kept of an order.

   A payload is {"step":"placed"}; a service of your own reads it with a JSON library.

   Set PROSODY_BOOTSTRAP_SERVERS, PROSODY_CASSANDRA_NODES, PROSODY_GROUP_ID and
   PROSODY_SUBSCRIBED_TOPICS, and run it. */
#include "service.h"

#define PATIENCE_S (15 * 60)

static const char *const OPTIONS[] = {
    "subsystem", "orders", "state_collections",
    "[{\"name\": \"status\", \"kind\": \"value\", \"published\": true}]", NULL};

/* What an order must be before a step. */
static const char *const STEPS[][3] = {
    {"{\"step\":\"placed\"}", "", "\"placed\""},
    {"{\"step\":\"paid\"}", "\"placed\"", "\"paid\""},
    {"{\"step\":\"shipped\"}", "\"paid\"", "\"shipped\""},
};

static int same(prosody_bytes bytes, const char *other) {
  return bytes.size == strlen(other) && memcmp(bytes.data, other, bytes.size) == 0;
}

static prosody_status bind(service *s, uint64_t invocation, uint64_t *status) {
  prosody_collection value = {
      .size = sizeof value, .kind = PROSODY_KIND_VALUE, .name = text("status")};
  return prosody_state_bind(invocation, &value, status, &s->error);
}

static prosody_status set(service *s, uint64_t status, const char *json) {
  prosody_item item = {.size = sizeof item, .json = text(json)};
  return await(s, prosody_value_set(status, s->answers, 0, &item, &s->error));
}

static prosody_status on_message(service *s, const prosody_message *message) {
  static char response[64], why[256];
  char present[64];
  uint64_t status;
  size_t size = 0;
  TRY(bind(s, message->invocation, &status));
  prosody_status found = await_bytes(
      s, prosody_value_get(status, s->answers, 0, present, sizeof present, &size, &s->error),
      present, sizeof present, &size);
  TRY(found);
  if (found == PROSODY_ABSENT) size = 0;

  for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
    const char *const *step = STEPS[i];
    if (!same(message->payload, step[0]) || !same((prosody_bytes){present, size}, step[1]))
      continue;
    TRY(set(s, status, step[2]));
    if (i == 0)
      TRY(prosody_timer_schedule(message->invocation, NULL, 0,
                                 message->timestamp_ms / 1000 + PATIENCE_S, 0, &s->error));
    else
      TRY(prosody_timer_clear(message->invocation, NULL, 0, 0, &s->error));
    snprintf(response, sizeof response, "{\"status\":%s}", step[2]);
    s->response = response;
    return PROSODY_OK;
  }
  snprintf(why, sizeof why, "the order is %.*s: no %.*s", size > 0 ? (int)size : 7,
           size > 0 ? present : "unknown", (int)message->payload.size,
           (const char *)message->payload.data);
  return refuse(s, why);
}

static prosody_status on_timer(service *s, const prosody_timer *timer) {
  uint64_t status;
  TRY(bind(s, timer->invocation, &status));
  return set(s, status, "\"lapsed\"");
}

static prosody_status on_excise(service *s, const prosody_message *message) {
  uint64_t status;
  TRY(bind(s, message->invocation, &status));
  TRY(await(s, prosody_state_clear(status, s->answers, 0, &s->error)));
  return prosody_timer_clear(message->invocation, NULL, 0, 0, &s->error);
}

int main(void) {
  service s = {.message = on_message, .excise = on_excise, .timer = on_timer};
  return serve(&s, OPTIONS);
}
