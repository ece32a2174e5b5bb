/* A member that handles one record, then leaves and exports its spans. Its options come from the
   environment. */
#include <stdio.h>
#include <string.h>

#include "prosody.h"

static int handled;
static uint64_t ended;

static void on_message(void *user_data, const prosody_message *message) {
  (void)user_data;
  printf("TRACE %.*s\n", (int)message->trace.size, (const char *)message->trace.data);
  prosody_outcome outcome = {.size = sizeof outcome, .invocation = message->invocation};
  prosody_complete(&outcome, 1, NULL);
  handled = 1;
}

static void on_completion(void *user_data, const prosody_completion *completion) {
  (void)user_data;
  if (completion->status != PROSODY_OK)
    fprintf(stderr, "call %d: %.*s\n", (int)completion->tag, (int)completion->text.size,
            (const char *)completion->text.data);
  ended = completion->tag;
}

int main(void) {
  prosody_config *config;
  prosody_queue *queue;
  prosody_client *client;
  prosody_handler handler = {
      .size = sizeof handler, .on_message = on_message, .on_completion = on_completion};
  if (prosody_config_create(&config, NULL) != PROSODY_OK) return 1;
  if (prosody_queue_create(&queue, NULL) != PROSODY_OK) return 1;
  if (prosody_client_create(config, queue, 1, &client, NULL) != PROSODY_PENDING) return 2;
  if (prosody_client_subscribe(client, queue, 2, NULL) != PROSODY_PENDING) return 3;
  while (!handled || ended < 2)
    if (prosody_queue_dispatch(queue, &handler, 1000, NULL, NULL) != PROSODY_OK) return 4;
  if (prosody_client_shutdown(client, queue, 3, NULL) != PROSODY_PENDING) return 5;
  while (ended < 3)
    if (prosody_queue_dispatch(queue, &handler, 1000, NULL, NULL) != PROSODY_OK) return 6;
  if (prosody_telemetry_shutdown(queue, 4, NULL) != PROSODY_PENDING) return 7;
  while (ended < 4)
    if (prosody_queue_dispatch(queue, &handler, 1000, NULL, NULL) != PROSODY_OK) return 8;
  prosody_client_destroy(client);
  prosody_queue_destroy(queue);
  prosody_config_destroy(config);
  return 0;
}
