/* Events in the host's hands: ends, retries, cancellation, several threads, the queue's waits. */
#include <pthread.h>
#include <signal.h>

#include "test.h"

static void start(host *h, const char *topic) {
  prosody_config *config = mock_config(topic);
  set(config, "retry_base", "1ms");
  set(config, "max_retry_delay", "2ms");
  set(config, "mode", "pipeline");
  set(config, "defer_enabled", "false");
  set(config, "shutdown_timeout", "2s");
  host_init(h);
  host_client(h, config);
  prosody_config_destroy(config);
  PENDING(prosody_client_subscribe(h->client, h->queue, 2, NULL));
  OK(await(h, 2));
}

static void finish(host *h) {
  PENDING(prosody_client_shutdown(h->client, h->queue, 99, NULL));
  OK(await(h, 99));
  prosody_client_destroy(h->client);
  host_free(h);
}

static void produce(host *h, const char *topic, const char *key) {
  PENDING(send_record(h->client, h->queue, 50, topic, bytes(key), bytes("{}")));
}

/* An invocation ends once; a transient end comes again, a permanent one does not. */
static void ends(void) {
  host h;
  start(&h, "ends");
  h.hold = 1;
  produce(&h, "ends", "k");
  UNTIL(&h, h.events == 1);
  OK(prosody_should_cancel(h.invocations[0]));
  OK(end(h.invocations[0], PROSODY_RESULT_TRANSIENT));
  STATUS(PROSODY_ERR_SETTLED, end(h.invocations[0], PROSODY_RESULT_SUCCESS));
  STATUS(PROSODY_ERR_SETTLED, prosody_should_cancel(h.invocations[0]));
  UNTIL(&h, h.events == 2);
  CHECK(h.retry == 1 && strcmp(h.keys[0], h.keys[1]) == 0);
  CHECK(h.invocations[0] != h.invocations[1]);
  OK(end(h.invocations[1], PROSODY_RESULT_PERMANENT));
  produce(&h, "ends", "k");
  UNTIL(&h, h.events == 3);
  CHECK(h.retry == 0);

  /* All of a batch are tried; the status is the first error. */
  prosody_outcome outcomes[3];
  memset(outcomes, 0, sizeof outcomes);
  for (int i = 0; i < 3; i++) outcomes[i].size = sizeof outcomes[i];
  outcomes[0].invocation = h.invocations[0];
  outcomes[1].invocation = 12345;
  outcomes[2].invocation = h.invocations[2];
  prosody_error error = fresh();
  STATUS(PROSODY_ERR_SETTLED, prosody_complete(outcomes, 3, &error));
  CHECK(error.status == PROSODY_ERR_SETTLED && error.category == PROSODY_CATEGORY_USAGE);
  STATUS(PROSODY_ERR_SETTLED, prosody_should_cancel(h.invocations[2]));
  outcomes[0].result = 9;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_complete(outcomes, 3, NULL));
  OK(prosody_complete(NULL, 0, NULL));

  /* Without a callback an event fails and comes again. */
  h.handler.on_message = NULL;
  produce(&h, "ends", "k");
  for (int i = 0; i < 5; i++) host_step(&h, 20);
  h.handler.on_message = take_event;
  h.hold = 0;
  UNTIL(&h, h.events == 4);
  CHECK(h.retry >= 1);
  finish(&h);
}

/* Shutdown asks handlers to stop, once each, and waits for their end. */
static void cancel(void) {
  host h;
  start(&h, "cancel");
  h.hold = 1;
  produce(&h, "cancel", "k");
  UNTIL(&h, h.events == 1);
  PENDING(prosody_client_shutdown(h.client, h.queue, 3, NULL));
  UNTIL(&h, h.cancels == 1);
  CHECK(h.reason == PROSODY_CANCEL_SHUTDOWN);
  STATUS(PROSODY_ERR_CANCELLED, prosody_should_cancel(h.invocations[0]));
  OK(end(h.invocations[0], PROSODY_RESULT_TRANSIENT));
  OK(await(&h, 3));
  CHECK(h.cancels == 1);
  prosody_client_destroy(h.client);
  host_free(&h);
}

/* A handler's time-out cancels it; its late success counts. */
static void timeout(void) {
  host h;
  prosody_config *config = mock_config("timeout");
  set(config, "timeout", "100ms");
  host_init(&h);
  host_client(&h, config);
  prosody_config_destroy(config);
  PENDING(prosody_client_subscribe(h.client, h.queue, 2, NULL));
  OK(await(&h, 2));
  h.hold = 1;
  produce(&h, "timeout", "k");
  UNTIL(&h, h.cancels == 1);
  CHECK(h.reason == PROSODY_CANCEL_TIMEOUT && h.events == 1);
  OK(end(h.invocations[0], PROSODY_RESULT_SUCCESS));
  finish(&h);
}

/* The queue of a subscription goes: its events fail, and a new queue gets them. */
static void queue_goes(void) {
  host h;
  start(&h, "goes");
  h.hold = 1;
  produce(&h, "goes", "k");
  UNTIL(&h, h.events == 1);
  prosody_queue *dead = h.queue;
  OK(prosody_queue_create(&h.queue, NULL));
  OK(prosody_client_log(h.client, h.queue, NULL));
  prosody_queue_destroy(dead);
  STATUS(PROSODY_ERR_SETTLED, end(h.invocations[0], PROSODY_RESULT_SUCCESS));
  STATUS(PROSODY_ERR_HANDLE, prosody_client_subscribe(h.client, dead, 3, NULL));
  PENDING(prosody_client_unsubscribe(h.client, h.queue, 4, NULL));
  OK(await(&h, 4));
  PENDING(prosody_client_subscribe(h.client, h.queue, 5, NULL));
  OK(await(&h, 5));
  h.hold = 0;
  UNTIL(&h, h.events == 2);
  CHECK(strcmp(h.keys[0], h.keys[1]) == 0);
  finish(&h);
}

static _Atomic int handled;

static void count_message(void *user_data, const prosody_message *message) {
  (void)user_data;
  OK(end(message->invocation, PROSODY_RESULT_SUCCESS));
  handled++;
}

static void *reader(void *argument) {
  host *h = argument;
  prosody_handler handler;
  memset(&handler, 0, sizeof handler);
  handler.size = sizeof handler;
  handler.limit = 3;
  handler.on_message = count_message;
  while (handled < 2000) {
    uint32_t count;
    prosody_status status = prosody_queue_dispatch(h->queue, &handler, 100, &count, NULL);
    CHECK(status == PROSODY_OK && count <= 3);
  }
  return NULL;
}

static void *writer(void *argument) {
  host *h = argument;
  for (int i = 0; i < 500; i++) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i % 7);
    PENDING(send_record(h->client, h->queue, 60, "threads", bytes(key), bytes("{}")));
  }
  return NULL;
}

static void threads(void) {
  host h;
  pthread_t all[8];
  start(&h, "threads");
  for (int i = 0; i < 8; i++)
    CHECK(pthread_create(&all[i], NULL, i < 4 ? reader : writer, &h) == 0);
  for (int i = 0; i < 8; i++) pthread_join(all[i], NULL);
  CHECK(handled == 2000);
  finish(&h);
}

static void *wake(void *queue) {
  usleep(100000);
  OK(prosody_queue_wake(queue));
  return NULL;
}

static void *interrupt(void *thread) {
  usleep(100000);
  pthread_kill(*(pthread_t *)thread, SIGUSR2);
  return NULL;
}

static void *destroy(void *queue) {
  usleep(100000);
  prosody_queue_destroy(queue);
  return NULL;
}

static void quiet(int number) { (void)number; }

static int readable(int fd) {
  struct pollfd p = {fd, POLLIN, 0};
  return poll(&p, 1, 0) == 1;
}

/* Waits end by a wake, by a signal, in time, or with the queue. */
static void waits(void) {
  _Alignas(8) char buffer[256];
  size_t size;
  uint32_t count;
  prosody_queue *queue;
  pthread_t thread, self = pthread_self();
  OK(prosody_queue_create(&queue, NULL));
  int fd = prosody_queue_fd(queue);
  CHECK(fd >= 0 && !readable(fd));

  int64_t begun = now_ms();
  OK(prosody_queue_poll(queue, buffer, sizeof buffer, 50, &size, &count, NULL));
  CHECK(count == 0 && size == 0 && now_ms() - begun >= 45);
  OK(prosody_queue_poll(queue, buffer, sizeof buffer, 0, &size, &count, NULL));

  OK(prosody_queue_wake(queue));
  CHECK(readable(fd));
  OK(prosody_queue_poll(queue, buffer, sizeof buffer, -1, &size, &count, NULL));
  CHECK(count == 0 && !readable(fd));

  CHECK(pthread_create(&thread, NULL, wake, queue) == 0);
  OK(prosody_queue_poll(queue, buffer, sizeof buffer, -1, &size, &count, NULL));
  CHECK(count == 0);
  pthread_join(thread, NULL);

  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = quiet;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR2, &action, NULL);
  CHECK(pthread_create(&thread, NULL, interrupt, &self) == 0);
  OK(prosody_queue_poll(queue, buffer, sizeof buffer, -1, &size, &count, NULL));
  CHECK(count == 0);
  pthread_join(thread, NULL);

  STATUS(PROSODY_ERR_ARGUMENT,
         prosody_queue_poll(queue, buffer + 4, sizeof buffer - 4, 0, &size, &count, NULL));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_queue_poll(queue, NULL, 8, 0, &size, &count, NULL));
  STATUS(PROSODY_ERR_ARGUMENT,
         prosody_queue_poll(queue, buffer, sizeof buffer, -2, &size, &count, NULL));

  CHECK(pthread_create(&thread, NULL, destroy, queue) == 0);
  prosody_status status = prosody_queue_poll(queue, buffer, sizeof buffer, -1, &size, &count, NULL);
  CHECK(status == PROSODY_ERR_CLOSED || status == PROSODY_ERR_HANDLE);
  pthread_join(thread, NULL);
  CHECK(prosody_queue_fd(queue) == -1);
}

/* A record that does not fit is not lost; the descriptor stays readable meanwhile. */
static void too_small(void) {
  host h;
  _Alignas(8) static char buffer[65536];
  size_t size;
  uint32_t count;
  start(&h, "small");
  produce(&h, "small", "key");
  OK(await(&h, 50));
  h.hold = 1;
  int before = h.events;
  if (before == 0) {
    STATUS(PROSODY_SHORT, ({
             prosody_status s;
             do s = prosody_queue_poll(h.queue, buffer, 16, 1000, &size, &count, NULL);
             while (s == PROSODY_OK && count == 0);
             s;
           }));
    CHECK(size >= sizeof(prosody_log_record) && count == 0);
    CHECK(readable(prosody_queue_fd(h.queue)));
    size_t need = size;
    OK(prosody_queue_poll(h.queue, buffer, need, 0, &size, &count, NULL));
    CHECK(count >= 1 && size >= need - 7);
    prosody_record *record = (prosody_record *)buffer;
    CHECK(record->size % 8 == 0 && record->size <= size);
    if (record->kind == PROSODY_RECORD_MESSAGE) {
      prosody_message message;
      OK(prosody_message_decode(record, &message));
      CHECK(same(message.key, bytes("key")) && same(message.payload, bytes("{}")));
      OK(end(message.invocation, PROSODY_RESULT_SUCCESS));
    }
  }
  finish(&h);
}

int main(void) {
  ends();
  cancel();
  timeout();
  queue_goes();
  threads();
  waits();
  too_small();
  return 0;
}
