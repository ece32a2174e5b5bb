/* What the examples counter, window and orders share: a service on one thread that waits for the answer of each
   call, as a program does that reads from top to bottom. One event is handled after the other; for
   more at a time run several threads, or do not wait, as async.c shows. */
#ifndef SERVICE_H
#define SERVICE_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prosody.h"

enum { TAG_CREATE = 1, TAG_SUBSCRIBE, TAG_SHUTDOWN, TAG_OTHER };

typedef struct service {
  prosody_queue *queue;   /* what is to be handled */
  prosody_queue *answers; /* of the calls that a handler makes */
  prosody_client *client;
  /* The handlers. They return PROSODY_OK, or the status of the call that failed. */
  prosody_status (*message)(struct service *s, const prosody_message *message);
  prosody_status (*excise)(struct service *s, const prosody_message *message);
  prosody_status (*timer)(struct service *s, const prosody_timer *timer);
  const char *response; /* of a handler, for one who asked; JSON */
  prosody_error error;  /* of the last call */
  /* The last completion. */
  uint64_t tag;
  prosody_status status;
  int64_t value;
  char *data;
  size_t size;
} service;

/* Returns from a handler when a call fails. */
#define TRY(call)                                                                                  \
  do {                                                                                             \
    prosody_status status_ = (call);                                                               \
    if (status_ >= PROSODY_ERR_ARGUMENT) return status_;                                           \
  } while (0)

static inline prosody_bytes text(const char *from) {
  prosody_bytes bytes = {from, strlen(from)};
  return bytes;
}

static inline void service_fail(service *s, prosody_status status, int32_t category,
                                const char *why, size_t size) {
  s->error.status = status;
  s->error.category = category;
  snprintf(s->error.text, sizeof s->error.text, "%.*s", (int)size, size > 0 ? why : "");
}

/* Fails for good: trying again would not help. */
static inline prosody_status refuse(service *s, const char *why) {
  service_fail(s, PROSODY_ERR_INVALID, PROSODY_CATEGORY_PERMANENT, why, strlen(why));
  return PROSODY_ERR_INVALID;
}

static inline void service_on_completion(void *user_data, const prosody_completion *completion) {
  service *s = user_data;
  s->tag = completion->tag;
  s->status = completion->status;
  s->value = completion->value;
  free(s->data);
  s->size = completion->data.size;
  s->data = malloc(s->size + 1);
  if (s->data == NULL) abort();
  if (s->size > 0) memcpy(s->data, completion->data.data, s->size);
  if (s->status >= PROSODY_ERR_ARGUMENT)
    service_fail(s, s->status, completion->category, completion->text.data, completion->text.size);
}

/* Waits for the end of a call of a handler: `await(s, prosody_…(…, s->answers, 0, …))`. */
static inline prosody_status await(service *s, prosody_status begun) {
  prosody_handler handler = {
      .size = sizeof handler, .user_data = s, .on_completion = service_on_completion};
  uint32_t count = 0;
  if (begun != PROSODY_PENDING) return begun;
  while (count == 0) TRY(prosody_queue_dispatch(s->answers, &handler, -1, &count, &s->error));
  return s->status;
}

/* The same for a call that writes bytes: they are in the buffer afterwards. */
static inline prosody_status await_bytes(service *s, prosody_status begun, void *buffer,
                                         size_t capacity, size_t *size) {
  prosody_status status = await(s, begun);
  if (begun != PROSODY_PENDING || status != PROSODY_OK) return status;
  *size = s->size;
  if (s->size > capacity) return PROSODY_SHORT;
  memcpy(buffer, s->data, s->size);
  return PROSODY_OK;
}

static inline void service_end(service *s, uint64_t invocation, prosody_status status) {
  prosody_outcome outcome = {.size = sizeof outcome, .invocation = invocation};
  if (status != PROSODY_OK) {
    int permanent = s->error.category == PROSODY_CATEGORY_PERMANENT;
    outcome.result = permanent ? PROSODY_RESULT_PERMANENT : PROSODY_RESULT_TRANSIENT;
    outcome.error_text = text(s->error.text);
  } else if (s->response != NULL) {
    outcome.response = text(s->response);
  }
  s->response = NULL;
  prosody_complete(&outcome, 1, NULL);
}

static inline void service_on_message(void *user_data, const prosody_message *message) {
  service *s = user_data;
  service_end(s, message->invocation, s->message(s, message));
}

static inline void service_on_excise(void *user_data, const prosody_message *message) {
  service *s = user_data;
  service_end(s, message->invocation, s->excise(s, message));
}

static inline void service_on_timer(void *user_data, const prosody_timer *timer) {
  service *s = user_data;
  service_end(s, timer->invocation, s->timer(s, timer));
}

/* Handles what waits, at most so long for the first of it. */
static inline prosody_status service_step(service *s, int32_t timeout_ms) {
  prosody_handler handler = {.size = sizeof handler,
                             .limit = 1,
                             .user_data = s,
                             .on_message = service_on_message,
                             .on_excise = service_on_excise,
                             .on_timer = service_on_timer,
                             .on_completion = service_on_completion};
  return prosody_queue_dispatch(s->queue, &handler, timeout_ms, NULL, &s->error);
}

/* Handles events until the call with this tag ends. */
static inline prosody_status service_until(service *s, uint64_t tag, prosody_status begun) {
  if (begun != PROSODY_PENDING) return begun;
  for (s->tag = 0; s->tag != tag;) TRY(service_step(s, -1));
  return s->status;
}

/* Makes a client, with options by pairs of name and value up to NULL, and subscribes. All others come
   from the environment: PROSODY_BOOTSTRAP_SERVERS and so on. */
static inline prosody_status service_open(service *s, const char *const *options) {
  prosody_config *config;
  s->error.size = sizeof s->error;
  TRY(prosody_config_create(&config, &s->error));
  for (; *options != NULL; options += 2)
    TRY(prosody_config_set(config, text(options[0]), text(options[1]), &s->error));
  TRY(prosody_queue_create(&s->queue, &s->error));
  TRY(prosody_queue_create(&s->answers, &s->error));
  TRY(service_until(s, TAG_CREATE,
                    prosody_client_create(config, s->queue, TAG_CREATE, &s->client, &s->error)));
  prosody_config_destroy(config);
  return service_until(s, TAG_SUBSCRIBE,
                       prosody_client_subscribe(s->client, s->queue, TAG_SUBSCRIBE, &s->error));
}

static inline prosody_status service_close(service *s) {
  prosody_status status = service_until(
      s, TAG_SHUTDOWN, prosody_client_shutdown(s->client, s->queue, TAG_SHUTDOWN, &s->error));
  prosody_client_destroy(s->client);
  prosody_queue_destroy(s->queue);
  prosody_queue_destroy(s->answers);
  free(s->data);
  s->data = NULL;
  return status;
}

static volatile sig_atomic_t service_stop;

static inline void service_on_signal(int number) { service_stop = number; }

/* A whole program: the service runs until SIGINT or SIGTERM. */
static inline int serve(service *s, const char *const *options) {
  struct sigaction action = {.sa_handler = service_on_signal, .sa_flags = SA_ONSTACK};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  prosody_status status = service_open(s, options);
  if (status == PROSODY_OK) {
    printf("running until Ctrl-C\n");
    fflush(stdout);
    while (!service_stop && status == PROSODY_OK) status = service_step(s, 500);
  }
  if (status == PROSODY_OK) status = service_close(s);
  if (status != PROSODY_OK) fprintf(stderr, "%s: %s\n", prosody_status_name(status), s->error.text);
  return status == PROSODY_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
#endif
