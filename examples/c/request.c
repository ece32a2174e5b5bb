/* Asks subsystems and prints their answers. Options come from the environment, as in consumer.c; a
   requester needs no group:

   PROSODY_BOOTSTRAP_SERVERS=localhost:9094 PROSODY_CASSANDRA_NODES=localhost:9042 \
   PROSODY_SOURCE_SYSTEM=shell ./request orders order-1 '{"n": 1}' billing stock */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prosody.h"

#define MOST 64
#define TIMEOUT_MS 10000

enum { TAG_CREATE = 1, TAG_REQUEST, TAG_SHUTDOWN };

typedef struct state {
  uint64_t ended; /* the tag of the last completion */
  int failed;
} state;

static prosody_bytes text(const char *from) {
  prosody_bytes bytes = {from, strlen(from)};
  return bytes;
}

static void print_answers(prosody_bytes data) {
  static const char *const kinds[] = {"?",       "success", "handler error",
                                      "timeout", "format",  "malformed"};
  prosody_bytes name, value;
  int32_t kind;
  size_t at = 0;
  while (prosody_answer_decode(data, at, &kind, &name, &value, &at) == PROSODY_OK)
    printf("%.*s: %s: %.*s\n", (int)name.size, (const char *)name.data,
           kinds[kind >= 1 && kind <= 5 ? kind : 0], (int)value.size, (const char *)value.data);
}

static void on_completion(void *user_data, const prosody_completion *completion) {
  state *s = user_data;
  s->ended = completion->tag;
  if (completion->status != PROSODY_OK) {
    s->failed = 1;
    fprintf(stderr, "%s: %.*s\n", prosody_status_name(completion->status),
            (int)completion->text.size, (const char *)completion->text.data);
  } else if (completion->tag == TAG_REQUEST) {
    print_answers(completion->data);
  }
}

/* Waits for the completion with a tag, when the call has begun. */
static int settle(prosody_queue *queue, const prosody_handler *handler, uint64_t tag,
                  prosody_status status, const prosody_error *error) {
  state *s = handler->user_data;
  if (status != PROSODY_PENDING) {
    fprintf(stderr, "%s: %s\n", prosody_status_name(status), error->text);
    return 0;
  }
  while (s->ended != tag) {
    if (prosody_queue_dispatch(queue, handler, -1, NULL, NULL) != PROSODY_OK) return 0;
  }
  return !s->failed;
}

int main(int count, char **arguments) {
  prosody_bytes names[MOST];
  prosody_config *config = NULL;
  prosody_queue *queue = NULL;
  prosody_client *client = NULL;
  state s = {0, 0};
  prosody_handler handler = {
      .size = sizeof handler, .user_data = &s, .on_completion = on_completion};
  prosody_error error = {.size = sizeof error};
  if (count < 5 || count - 4 > MOST) {
    fprintf(stderr, "usage: request TOPIC KEY JSON SUBSYSTEM...\n");
    return 2;
  }
  for (int i = 4; i < count; i++) names[i - 4] = text(arguments[i]);
  prosody_outgoing record = {.size = sizeof record,
                             .topic = text(arguments[1]),
                             .key = text(arguments[2]),
                             .payload = text(arguments[3])};
  prosody_request request = {.size = sizeof request,
                             .subsystems_count = (uint32_t)count - 4,
                             .subsystems = names,
                             .timeout_ms = TIMEOUT_MS,
                             .record = &record};
  if (prosody_config_create(&config, &error) != PROSODY_OK ||
      prosody_queue_create(&queue, &error) != PROSODY_OK) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  int good = settle(queue, &handler, TAG_CREATE,
                    prosody_client_create(config, queue, TAG_CREATE, &client, &error), &error);
  if (good) {
    good = settle(queue, &handler, TAG_REQUEST,
                  prosody_client_request(client, queue, TAG_REQUEST, &request, &error), &error);
    s.failed = 0;
    settle(queue, &handler, TAG_SHUTDOWN,
           prosody_client_shutdown(client, queue, TAG_SHUTDOWN, &error), &error);
  }
  prosody_client_destroy(client);
  prosody_queue_destroy(queue);
  prosody_config_destroy(config);
  return good ? 0 : 1;
}
