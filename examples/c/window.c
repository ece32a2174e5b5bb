/* Sends each customer one letter a day at most: about all that came since the first message.

   The messages wait in a deque, which keeps their places in the log and not their bytes. A timer ends
   the window. Both survive a restart, and share the order of their key.

   Set PROSODY_BOOTSTRAP_SERVERS, PROSODY_CASSANDRA_NODES, PROSODY_GROUP_ID and
   PROSODY_SUBSCRIBED_TOPICS, and run it. */
#include <inttypes.h>

#include "service.h"

#define WINDOW_S (24 * 3600)

static const char *const OPTIONS[] = {
    "state_collections",
    "[{\"name\": \"waiting\", \"kind\": \"deque\", \"payload\": \"message\", \"capacity\": 100}]",
    NULL};

static prosody_status waiting(service *s, uint64_t invocation, uint64_t *deque) {
  prosody_collection messages = {.size = sizeof messages,
                                 .kind = PROSODY_KIND_DEQUE,
                                 .payload = PROSODY_PAYLOAD_MESSAGE,
                                 .name = text("waiting")};
  return prosody_state_bind(invocation, &messages, deque, &s->error);
}

static prosody_status on_message(service *s, const prosody_message *message) {
  prosody_item item = {.size = sizeof item,
                       .topic = message->topic,
                       .partition = message->partition,
                       .offset = message->offset};
  uint64_t deque;
  int64_t count = 0;
  TRY(waiting(s, message->invocation, &deque));
  prosody_status status = prosody_deque_size(deque, s->answers, 0, &count, &s->error);
  TRY(await(s, status));
  if (status == PROSODY_PENDING) count = s->value;
  if (count == 0) {
    int64_t end = message->timestamp_ms / 1000 + WINDOW_S;
    TRY(prosody_timer_schedule(message->invocation, NULL, 0, end, 0, &s->error));
  }
  return await(s, prosody_deque_push(deque, s->answers, 0, PROSODY_BACK, &item, &s->error));
}

/* Takes the messages out of the deque and writes their payloads as a list. The deque keeps them should
   this attempt fail. */
static prosody_status collect(service *s, uint64_t deque, FILE *list) {
  static _Alignas(8) char buffer[1 << 20];
  prosody_message message;
  size_t size;
  for (int count = 0;; count++) {
    prosody_status status = await_bytes(s,
                                        prosody_deque_pop(deque, s->answers, 0, PROSODY_FRONT,
                                                          buffer, sizeof buffer, &size, &s->error),
                                        buffer, sizeof buffer, &size);
    if (status == PROSODY_ABSENT) return PROSODY_OK;
    if (status == PROSODY_SHORT) return refuse(s, "a message over 1 MiB");
    TRY(status);
    TRY(prosody_message_decode((const prosody_record *)buffer, &message));
    fprintf(list, "%s%.*s", count == 0 ? "" : ",", (int)message.payload.size,
            (const char *)message.payload.data);
  }
}

static prosody_status on_timer(service *s, const prosody_timer *timer) {
  prosody_outgoing letter = {.size = sizeof letter, .topic = text("letters"), .key = timer->key};
  char *payload;
  size_t size;
  uint64_t deque;
  TRY(waiting(s, timer->invocation, &deque));
  FILE *out = open_memstream(&payload, &size);
  if (out == NULL) abort();
  /* Should this attempt fail after the send, the next one sends the same id: it goes out once. */
  fprintf(out, "{\"id\":\"%" PRId64 "\",\"orders\":[", timer->second);
  prosody_status status = collect(s, deque, out);
  fprintf(out, "]}");
  fclose(out);
  letter.payload = (prosody_bytes){payload, size};
  if (status == PROSODY_OK)
    status = await(s, prosody_client_send(s->client, s->answers, 0, &letter, &s->error));
  free(payload);
  return status;
}

static prosody_status on_excise(service *s, const prosody_message *message) {
  uint64_t deque;
  TRY(waiting(s, message->invocation, &deque));
  TRY(await(s, prosody_state_clear(deque, s->answers, 0, &s->error)));
  return prosody_timer_clear(message->invocation, NULL, 0, 0, &s->error);
}

int main(void) {
  service s = {.message = on_message, .excise = on_excise, .timer = on_timer};
  return serve(&s, OPTIONS);
}
