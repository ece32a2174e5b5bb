/* Measures how fast a consumer with an empty handler takes records: best-effort mode, one thread.
   Prints JSON. Options come from the environment; for example:

   PROSODY_MOCK=true PROSODY_BOOTSTRAP_SERVERS=bench ./bench 200000 100

   With the name of a topic as third argument, it reads that one instead of filling its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "prosody.h"

#define BUFFER (256 * 1024)
#define MAX_BATCH 4096
#define PARTITIONS 4
#define IN_FLIGHT 5000

enum { TAG_CREATE = 1, TAG_TOPIC, TAG_SUBSCRIBE, TAG_SHUTDOWN, TAG_SEND };

static struct {
  prosody_queue *queue;
  void *buffer;
  long messages, sent, batches;
  uint64_t done; /* bits of the tags that are complete */
} bench;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static prosody_bytes text(const char *from) {
  prosody_bytes bytes = {from, strlen(from)};
  return bytes;
}

static void check(prosody_status status, prosody_status wanted, const prosody_error *error) {
  if (status == wanted) return;
  fprintf(stderr, "%s: %s\n", prosody_status_name(status), error->text);
  exit(EXIT_FAILURE);
}

/* Takes one batch; ends its messages with one call. */
static void turn(int timeout_ms) {
  static prosody_outcome outcomes[MAX_BATCH];
  prosody_error error = {.size = sizeof error};
  size_t size = 0, ended = 0;
  uint32_t count = 0;
  check(prosody_queue_poll(bench.queue, bench.buffer, BUFFER, timeout_ms, &size, &count, &error),
        PROSODY_OK, &error);
  bench.batches += count > 0;
  for (char *at = bench.buffer, *end = at + size; at < end;) {
    prosody_record *record = (prosody_record *)at;
    at += record->size;
    if (record->kind == PROSODY_RECORD_MESSAGE) {
      prosody_outcome *outcome = &outcomes[ended++];
      outcome->size = sizeof *outcome;
      outcome->invocation = record->token;
      bench.messages++;
    } else if (record->kind == PROSODY_RECORD_COMPLETION) {
      prosody_completion_record *completion = (prosody_completion_record *)record;
      if (completion->status != PROSODY_OK) {
        fprintf(stderr, "%.*s\n", (int)completion->text_size, (char *)(completion + 1));
        exit(EXIT_FAILURE);
      }
      if (record->token == TAG_SEND)
        bench.sent++;
      else
        bench.done |= 1u << record->token;
    }
  }
  if (ended > 0) check(prosody_complete(outcomes, ended, &error), PROSODY_OK, &error);
}

static void await(int tag) {
  while (!(bench.done & 1u << tag)) turn(-1);
  bench.done &= ~(1u << tag);
}

static prosody_config *configuration(const char *topic, const char *group) {
  prosody_config *config;
  prosody_error error = {.size = sizeof error};
  check(prosody_config_create(&config, &error), PROSODY_OK, &error);
  const char *options[][2] = {{"mode", "best-effort"},
                              {"group_id", group},
                              {"subscribed_topics", topic},
                              {"source_system", "bench"}};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    check(prosody_config_set(config, text(options[i][0]), text(options[i][1]), &error), PROSODY_OK,
          &error);
  return config;
}

static prosody_client *make(prosody_config *config) {
  prosody_client *client;
  prosody_error error = {.size = sizeof error};
  check(prosody_client_create(config, bench.queue, TAG_CREATE, &client, &error), PROSODY_PENDING,
        &error);
  await(TAG_CREATE);
  return client;
}

static void finish(prosody_client *client) {
  prosody_error error = {.size = sizeof error};
  check(prosody_client_shutdown(client, bench.queue, TAG_SHUTDOWN, &error), PROSODY_PENDING,
        &error);
  await(TAG_SHUTDOWN);
  prosody_client_destroy(client);
}

static void make_topic(prosody_config *config, const char *name) {
  prosody_admin *admin;
  prosody_error error = {.size = sizeof error};
  prosody_topic topic = {.size = sizeof topic, .partitions = PARTITIONS, .name = text(name)};
  check(prosody_admin_create(config, &admin, &error), PROSODY_OK, &error);
  check(prosody_admin_create_topic(admin, bench.queue, TAG_TOPIC, &topic, &error), PROSODY_PENDING,
        &error);
  await(TAG_TOPIC);
  prosody_admin_destroy(admin);
}

/* Sends the records and gives the rate. */
static double fill(prosody_client *client, const char *topic, long records, size_t size) {
  char *payload = malloc(size + 1), key[32];
  prosody_error error = {.size = sizeof error};
  memset(payload, 'x', size);
  payload[0] = payload[size - 1] = '"';
  double begun = now();
  for (long i = 0; i < records; i++) {
    snprintf(key, sizeof key, "key-%ld", i % 1000);
    prosody_outgoing record = {
        .size = sizeof record, .topic = text(topic), .key = text(key), .payload = {payload, size}};
    check(prosody_client_send(client, bench.queue, TAG_SEND, &record, &error), PROSODY_PENDING,
          &error);
    while (i - bench.sent > IN_FLIGHT) turn(-1);
  }
  while (bench.sent < records) turn(-1);
  free(payload);
  return (double)records / (now() - begun);
}

int main(int count, char **arguments) {
  long records = count > 1 ? atol(arguments[1]) : 200000;
  size_t size = count > 2 ? (size_t)atol(arguments[2]) : 100;
  char own[64];
  prosody_error error = {.size = sizeof error};
  if (records <= 0 || size < 2) {
    fprintf(stderr, "usage: bench [RECORDS [BYTES [TOPIC]]]\n");
    return 2;
  }
  snprintf(own, sizeof own, "bench-%ld-%d", (long)time(NULL), (int)getpid());
  const char *topic = count > 3 ? arguments[3] : own;
  bench.buffer = aligned_alloc(8, BUFFER);
  check(prosody_queue_create(&bench.queue, &error), PROSODY_OK, &error);
  prosody_config *config = configuration(topic, own);
  if (topic == own) make_topic(config, topic);
  prosody_client *client = make(config);
  double send_rate = topic == own ? fill(client, topic, records, size) : 0;

  bench.batches = 0;
  double asked = now(), used = cpu();
  check(prosody_client_subscribe(client, bench.queue, TAG_SUBSCRIBE, &error), PROSODY_PENDING,
        &error);
  while (bench.messages == 0) turn(-1);
  double first = now();
  long before = bench.messages;
  while (bench.messages < records) turn(-1);
  double last = now();
  used = cpu() - used;
  await(TAG_SUBSCRIBE);
  finish(client);
  prosody_config_destroy(config);
  prosody_queue_destroy(bench.queue);
  free(bench.buffer);
  printf("{\"records\": %ld, \"bytes\": %zu, \"send_per_s\": %.0f, \"consume_per_s\": %.0f, "
         "\"cpu_us_per_record\": %.2f, \"records_per_batch\": %.1f, \"first_after_s\": %.2f}\n",
         records, size, send_rate, (double)(records - before) / (last - first),
         used / (double)records * 1e6, (double)records / (double)bench.batches, first - asked);
  return EXIT_SUCCESS;
}
