/* A small service in mock mode, without any server: it sends, handles, excises and sets a timer,
   and says what happened, key by key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "prosody.h"

#define TOPIC "orders"
#define SENT 7
#define EXPECTED 8 /* with the timer */

enum { TAG_CREATE = 1, TAG_SUBSCRIBE, TAG_SEND, TAG_SHUTDOWN };

typedef struct story {
  char lines[2][EXPECTED][80]; /* of order-1 and order-2 */
  int counts[2];
  int handled, sent;
  int subscribed, over;
} story;

static prosody_bytes text(const char *from) {
  prosody_bytes bytes = {from, from == NULL ? 0 : strlen(from)};
  return bytes;
}

static int same(prosody_bytes bytes, const char *other) {
  return bytes.size == strlen(other) && memcmp(bytes.data, other, bytes.size) == 0;
}

static void check(prosody_status status, prosody_status wanted, const prosody_error *error) {
  if (status == wanted) return;
  fprintf(stderr, "%s: %s\n", prosody_status_name(status), error->text);
  exit(EXIT_FAILURE);
}

static void note(story *s, const char *kind, prosody_bytes key, prosody_bytes payload) {
  int which = ((const char *)key.data)[key.size - 1] - '1';
  snprintf(s->lines[which][s->counts[which]++], 80, "%s %.*s%s%.*s", kind, (int)key.size,
           (const char *)key.data, payload.size > 0 ? " " : "", (int)payload.size,
           payload.size > 0 ? (const char *)payload.data : "");
  s->handled++;
}

static void succeed(uint64_t invocation) {
  prosody_outcome success = {.size = sizeof success, .invocation = invocation};
  prosody_complete(&success, 1, NULL);
}

/* The second that is nearest to the moment one second from now. */
static int64_t soon(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec + 1 + (now.tv_nsec >= 500000000);
}

static void on_message(void *user_data, const prosody_message *message) {
  note(user_data, "message", message->key, message->payload);
  if (same(message->key, "order-1") && same(message->payload, "{\"n\":3}")) {
    prosody_error error = {.size = sizeof error};
    check(prosody_timer_schedule(message->invocation, NULL, 0, soon(), 0, &error), PROSODY_OK,
          &error);
  }
  succeed(message->invocation);
}

static void on_excise(void *user_data, const prosody_message *message) {
  note(user_data, "excise", message->key, message->payload);
  succeed(message->invocation);
}

static void on_timer(void *user_data, const prosody_timer *timer) {
  note(user_data, "timer", timer->key, text(NULL));
  succeed(timer->invocation);
}

static void on_completion(void *user_data, const prosody_completion *completion) {
  story *s = user_data;
  if (completion->status != PROSODY_OK) {
    fprintf(stderr, "%.*s\n", (int)completion->text.size, (const char *)completion->text.data);
    exit(EXIT_FAILURE);
  }
  if (completion->tag == TAG_SUBSCRIBE) s->subscribed = 1;
  if (completion->tag == TAG_SEND) s->sent++;
  if (completion->tag == TAG_SHUTDOWN) s->over = 1;
}

int main(void) {
  static story s;
  prosody_config *config;
  prosody_queue *queue;
  prosody_client *client;
  prosody_error error = {.size = sizeof error};
  prosody_handler handler = {.size = sizeof handler,
                             .user_data = &s,
                             .on_message = on_message,
                             .on_excise = on_excise,
                             .on_timer = on_timer,
                             .on_completion = on_completion};

  check(prosody_config_create(&config, &error), PROSODY_OK, &error);
  static const char *const options[][2] = {{"mock", "true"},
                                           {"bootstrap_servers", "demo"},
                                           {"group_id", "demo"},
                                           {"source_system", "demo-sender"},
                                           {"subscribed_topics", TOPIC}};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    check(prosody_config_set(config, text(options[i][0]), text(options[i][1]), &error), PROSODY_OK,
          &error);

  check(prosody_queue_create(&queue, &error), PROSODY_OK, &error);
  check(prosody_client_create(config, queue, TAG_CREATE, &client, &error), PROSODY_PENDING, &error);
  check(prosody_client_subscribe(client, queue, TAG_SUBSCRIBE, &error), PROSODY_PENDING, &error);
  prosody_config_destroy(config);

  for (int i = 0; i < 6; i++) {
    char payload[16];
    snprintf(payload, sizeof payload, "{\"n\":%d}", i % 3 + 1);
    prosody_outgoing record = {.size = sizeof record,
                               .topic = text(TOPIC),
                               .key = text(i < 3 ? "order-1" : "order-2"),
                               .payload = text(payload)};
    check(prosody_client_send(client, queue, TAG_SEND, &record, &error), PROSODY_PENDING, &error);
  }
  prosody_outgoing record = {.size = sizeof record, .topic = text(TOPIC), .key = text("order-1")};
  check(prosody_client_excise(client, queue, TAG_SEND, &record, &error), PROSODY_PENDING, &error);

  while (s.handled < EXPECTED || s.sent < SENT || !s.subscribed)
    check(prosody_queue_dispatch(queue, &handler, -1, NULL, &error), PROSODY_OK, &error);
  check(prosody_client_shutdown(client, queue, TAG_SHUTDOWN, &error), PROSODY_PENDING, &error);
  while (!s.over)
    check(prosody_queue_dispatch(queue, &handler, -1, NULL, &error), PROSODY_OK, &error);
  prosody_client_destroy(client);
  prosody_queue_destroy(queue);

  for (int key = 0; key < 2; key++) {
    for (int i = 0; i < s.counts[key]; i++) puts(s.lines[key][i]);
  }
  puts("done");
  return EXIT_SUCCESS;
}
