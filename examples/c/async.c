/* What counter.c does, without waiting: one thread has many events under way. For example:

   PROSODY_BOOTSTRAP_SERVERS=localhost:9094 PROSODY_GROUP_ID=counter PROSODY_SUBSYSTEM=counter \
   PROSODY_SUBSCRIBED_TOPICS=orders PROSODY_CASSANDRA_NODES=localhost:9042 ./async

   Where the count is at hand, each call ends at once. Where it has to be read first, the answer is a
   completion: the event goes on there. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prosody.h"

/* Tags from here on are events that wait for an answer. */
enum { TAG_CREATE = 1, TAG_SUBSCRIBE, TAG_SHUTDOWN, TAG_EVENT };

/* An event that has been begun: the step that it waits for. */
typedef struct event {
  struct event *next;
  uint64_t tag, invocation, state;
  int writing;
} event;

typedef struct service {
  prosody_queue *queue;
  prosody_client *client;
  event *waiting;
  uint64_t tags;
  int over, failed;
} service;

static volatile sig_atomic_t stop;

static void on_signal(int number) {
  (void)number;
  stop = 1;
}

static prosody_bytes text(const char *from) {
  prosody_bytes bytes = {from, strlen(from)};
  return bytes;
}

static void end(uint64_t invocation, const prosody_error *error) {
  prosody_outcome outcome = {.size = sizeof outcome, .invocation = invocation};
  if (error != NULL) {
    int permanent = error->category == PROSODY_CATEGORY_PERMANENT;
    outcome.result = permanent ? PROSODY_RESULT_PERMANENT : PROSODY_RESULT_TRANSIENT;
    outcome.error_text = text(error->text);
  }
  prosody_complete(&outcome, 1, NULL);
}

/* Lets an event wait for the completion with its tag. */
static void wait_for(service *s, const event *what) {
  event *kept = malloc(sizeof *kept);
  if (kept == NULL) abort();
  *kept = *what;
  kept->next = s->waiting;
  s->waiting = kept;
}

/* The count is known: sets the next one. */
static void count(service *s, event *e, prosody_status status, prosody_bytes found) {
  prosody_error error = {.size = sizeof error};
  char number[32] = "0";
  if (status == PROSODY_OK && found.size < sizeof number) {
    memcpy(number, found.data, found.size);
    number[found.size] = 0;
  }
  snprintf(number, sizeof number, "%llu", strtoull(number, NULL, 10) + 1);
  prosody_item item = {.size = sizeof item, .json = text(number)};
  e->writing = 1;
  e->tag = s->tags++;
  status = prosody_value_set(e->state, s->queue, e->tag, &item, &error);
  if (status == PROSODY_PENDING)
    wait_for(s, e);
  else
    end(e->invocation, status == PROSODY_OK ? NULL : &error);
}

static void on_message(void *user_data, const prosody_message *message) {
  service *s = user_data;
  prosody_error error = {.size = sizeof error};
  prosody_collection total = {
      .size = sizeof total, .kind = PROSODY_KIND_VALUE, .name = text("count")};
  event e = {.tag = s->tags++, .invocation = message->invocation};
  char buffer[32];
  size_t size = 0;
  prosody_status status = prosody_state_bind(e.invocation, &total, &e.state, &error);
  if (status == PROSODY_OK)
    status = prosody_value_get(e.state, s->queue, e.tag, buffer, sizeof buffer, &size, &error);
  if (status == PROSODY_PENDING)
    wait_for(s, &e);
  else if (status == PROSODY_OK || status == PROSODY_ABSENT)
    count(s, &e, status, (prosody_bytes){buffer, size});
  else
    end(e.invocation, &error);
}

/* The data of a key are to be deleted: so is its count. */
static void on_excise(void *user_data, const prosody_message *message) {
  service *s = user_data;
  prosody_error error = {.size = sizeof error};
  prosody_collection total = {
      .size = sizeof total, .kind = PROSODY_KIND_VALUE, .name = text("count")};
  event e = {.tag = s->tags++, .invocation = message->invocation, .writing = 1};
  prosody_status status = prosody_state_bind(e.invocation, &total, &e.state, &error);
  if (status == PROSODY_OK) status = prosody_state_clear(e.state, s->queue, e.tag, &error);
  if (status == PROSODY_PENDING)
    wait_for(s, &e);
  else
    end(e.invocation, status == PROSODY_OK ? NULL : &error);
}

/* An answer for an event that waits. */
static void go_on(service *s, const prosody_completion *completion) {
  event **at = &s->waiting;
  while (*at != NULL && (*at)->tag != completion->tag) at = &(*at)->next;
  if (*at == NULL) return;
  event *found = *at, e = *found;
  *at = found->next;
  free(found);
  if (completion->status >= PROSODY_ERR_ARGUMENT) {
    prosody_error error = {.size = sizeof error, .category = completion->category};
    snprintf(error.text, sizeof error.text, "%.*s", (int)completion->text.size,
             (const char *)completion->text.data);
    end(e.invocation, &error);
  } else if (e.writing) {
    end(e.invocation, NULL);
  } else {
    count(s, &e, completion->status, completion->data);
  }
}

static void on_completion(void *user_data, const prosody_completion *completion) {
  service *s = user_data;
  if (completion->tag >= TAG_EVENT) {
    go_on(s, completion);
    return;
  }
  if (completion->status != PROSODY_OK) {
    fprintf(stderr, "%s: %.*s\n", prosody_status_name(completion->status),
            (int)completion->text.size, (const char *)completion->text.data);
    s->failed = 1;
    stop = 1;
  }
  if (completion->tag == TAG_SHUTDOWN) s->over = 1;
}

static void on_fatal(void *user_data, prosody_bytes why) {
  service *s = user_data;
  fprintf(stderr, "fatal: %.*s\n", (int)why.size, (const char *)why.data);
  s->failed = s->over = 1;
}

int main(void) {
  service s = {.tags = TAG_EVENT};
  prosody_config *config;
  prosody_error error = {.size = sizeof error};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  if (prosody_config_create(&config, &error) != PROSODY_OK ||
      prosody_config_set(config, text("state_collections"),
                         text("[{\"name\": \"count\", \"kind\": \"value\", \"published\": true}]"),
                         &error) != PROSODY_OK ||
      prosody_queue_create(&s.queue, &error) != PROSODY_OK ||
      prosody_client_create(config, s.queue, TAG_CREATE, &s.client, &error) != PROSODY_PENDING ||
      prosody_client_subscribe(s.client, s.queue, TAG_SUBSCRIBE, &error) != PROSODY_PENDING) {
    fprintf(stderr, "%s: %s\n", prosody_status_name(error.status), error.text);
    return EXIT_FAILURE;
  }
  prosody_config_destroy(config);

  prosody_handler handler = {.size = sizeof handler,
                             .user_data = &s,
                             .on_message = on_message,
                             .on_excise = on_excise,
                             .on_completion = on_completion,
                             .on_fatal = on_fatal};
  int leaving = 0;
  while (!s.over) {
    if (stop && !leaving) {
      leaving = 1;
      if (prosody_client_shutdown(s.client, s.queue, TAG_SHUTDOWN, NULL) != PROSODY_PENDING) break;
    }
    if (prosody_queue_dispatch(s.queue, &handler, 500, NULL, &error) != PROSODY_OK) break;
  }
  prosody_client_destroy(s.client);
  prosody_queue_destroy(s.queue);
  return s.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
