/* Handles are freed by eight threads while eight others use them: each call ends with a code. */
#include <pthread.h>
#include <stdatomic.h>

#include "test.h"

#define THREADS 8
#define CALLS 100

static prosody_config *config;
static prosody_queue *queue;
static prosody_client *client;
static prosody_admin *admin;
static pthread_barrier_t barrier;

static void allow(prosody_status status) {
  switch (status) {
  case PROSODY_OK:
  case PROSODY_PENDING:
  case PROSODY_SHORT:
  case PROSODY_ERR_HANDLE:
  case PROSODY_ERR_CLOSED:
  case PROSODY_ERR_STATE:
    return;
  }
  fprintf(stderr, "unexpected: %s\n", prosody_status_name(status));
  exit(1);
}

static void *use(void *argument) {
  _Alignas(8) char buffer[4096];
  size_t size;
  uint32_t count;
  int32_t number;
  (void)argument;
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < CALLS; i++) {
    allow(send_record(client, queue, (uint64_t)i, "close", bytes("k"), bytes("{}")));
    allow(prosody_queue_poll(queue, buffer, sizeof buffer, i % 3, &size, &count, NULL));
    allow(prosody_queue_wake(queue));
    allow(prosody_client_state(client, &number, NULL));
    allow(prosody_client_stats(client, buffer, sizeof buffer, &size, NULL));
    allow(prosody_client_subscribe(client, queue, 1, NULL));
    allow(prosody_client_unsubscribe(client, queue, 1, NULL));
    allow(prosody_admin_delete_topic(admin, queue, 1, bytes("none"), NULL));
    allow(prosody_config_set(config, bytes("group_id"), bytes("g"), NULL));
    if (i % 10 == 0) allow(prosody_client_shutdown(client, queue, 1, NULL));
  }
  return NULL;
}

static void *destroy(void *argument) {
  intptr_t number = (intptr_t)argument;
  pthread_barrier_wait(&barrier);
  usleep((useconds_t)(number * 500));
  for (int i = 0; i < 4; i++) {
    switch ((number + i) % 4) {
    case 0:
      prosody_queue_destroy(queue);
      break;
    case 1:
      prosody_client_destroy(client);
      break;
    case 2:
      prosody_admin_destroy(admin);
      break;
    case 3:
      prosody_config_destroy(config);
      break;
    }
  }
  return NULL;
}

int main(void) {
  host watch;
  host_init(&watch);
  prosody_config *own = mock_config("close");
  host_client(&watch, own);
  for (int round = 0; round < 10; round++) {
    pthread_t threads[2 * THREADS];
    config = mock_config("close");
    OK(prosody_queue_create(&queue, NULL));
    PENDING(prosody_client_create(config, queue, 1, &client, NULL));
    OK(prosody_admin_create(config, &admin, NULL));
    pthread_barrier_init(&barrier, NULL, 2 * THREADS);
    for (intptr_t i = 0; i < THREADS; i++) {
      CHECK(pthread_create(&threads[i], NULL, use, NULL) == 0);
      CHECK(pthread_create(&threads[THREADS + i], NULL, destroy, (void *)i) == 0);
    }
    for (int i = 0; i < 2 * THREADS; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
  }
  CHECK(left(watch.client, "queue") == 1);
  CHECK(left(watch.client, "client") == 1);
  CHECK(left(watch.client, "admin") == 0);
  CHECK(left(watch.client, "config") == 1);
  UNTIL(&watch, left(watch.client, "invocations") == 0);
  prosody_client_destroy(watch.client);
  prosody_config_destroy(own);
  host_free(&watch);
  return 0;
}
