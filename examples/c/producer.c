/* Sends the lines of standard input to a topic: each line is a key, a tab and a JSON text; a line
   without a tab excises the key. Options come from the environment, as in consumer.c:

   printf 'order-1\t{"n": 1}\norder-1\n' | ./producer orders */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prosody.h"

#define IN_FLIGHT 1000 /* sends that may wait for their acknowledgement */

enum { TAG_CREATE = 1, TAG_SHUTDOWN, TAG_SEND };

typedef struct state {
  prosody_queue *queue;
  prosody_handler handler;
  uint64_t waiting, sent, failed;
} state;

static prosody_bytes text(const char *from) {
  prosody_bytes bytes = {from, strlen(from)};
  return bytes;
}

static void on_completion(void *user_data, const prosody_completion *completion) {
  state *s = user_data;
  s->waiting--;
  if (completion->status != PROSODY_OK) {
    s->failed++;
    fprintf(stderr, "%s: %.*s\n", prosody_status_name(completion->status),
            (int)completion->text.size, (const char *)completion->text.data);
  } else if (completion->tag == TAG_SEND) {
    s->sent++;
  }
}

/* Takes completions until at most `most` calls wait. */
static int settle(state *s, uint64_t most) {
  while (s->waiting > most) {
    if (prosody_queue_dispatch(s->queue, &s->handler, -1, NULL, NULL) != PROSODY_OK) return 0;
  }
  return 1;
}

static void send_line(state *s, prosody_client *client, const char *topic, char *line) {
  prosody_error error = {.size = sizeof error};
  prosody_outgoing record = {.size = sizeof record, .topic = text(topic)};
  prosody_status status;
  char *tab = strchr(line, '\t');
  if (tab != NULL) {
    *tab = 0;
    record.key = text(line);
    record.payload = text(tab + 1);
    status = prosody_client_send(client, s->queue, TAG_SEND, &record, &error);
  } else {
    record.key = text(line);
    status = prosody_client_excise(client, s->queue, TAG_SEND, &record, &error);
  }
  if (status == PROSODY_PENDING) {
    s->waiting++;
  } else {
    s->failed++;
    fprintf(stderr, "%s: %s\n", prosody_status_name(status), error.text);
  }
}

int main(int count, char **arguments) {
  static char line[1 << 20];
  prosody_config *config;
  prosody_client *client;
  state s = {0};
  prosody_error error = {.size = sizeof error};
  if (count != 2) {
    fprintf(stderr, "usage: producer TOPIC\n");
    return 2;
  }
  s.handler.size = sizeof s.handler;
  s.handler.user_data = &s;
  s.handler.on_completion = on_completion;
  if (prosody_config_create(&config, &error) != PROSODY_OK ||
      prosody_queue_create(&s.queue, &error) != PROSODY_OK ||
      prosody_client_create(config, s.queue, TAG_CREATE, &client, &error) != PROSODY_PENDING ||
      prosody_client_log(client, NULL, &error) != PROSODY_OK) {
    fprintf(stderr, "%s: %s\n", prosody_status_name(error.status), error.text);
    return EXIT_FAILURE;
  }
  s.waiting++;
  while (settle(&s, IN_FLIGHT) && fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = 0;
    send_line(&s, client, arguments[1], line);
  }
  settle(&s, 0);
  if (prosody_client_shutdown(client, s.queue, TAG_SHUTDOWN, NULL) == PROSODY_PENDING) {
    s.waiting++;
    settle(&s, 0);
  }
  prosody_client_destroy(client);
  prosody_queue_destroy(s.queue);
  prosody_config_destroy(config);
  printf("sent %" PRIu64 ", failed %" PRIu64 "\n", s.sent, s.failed);
  return s.failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
