/* One client in mock mode, from its making to its end. */
#include <pthread.h>

#include "test.h"

static void inspect(const prosody_message *message) {
  prosody_bytes name, value;
  CHECK(same(message->topic, bytes("client")));
  CHECK(message->offset >= 0 && message->timestamp_ms > 0);
  CHECK(same(message->source, bytes("tests")));
  CHECK(message->headers_count >= 4);
  OK(prosody_message_header(message, 0, &name, &value));
  CHECK(same(name, bytes("a")) && same(value, bytes("1")));
  OK(prosody_message_header(message, 1, &name, &value));
  CHECK(same(name, bytes("a")) && value.data == NULL);
  OK(prosody_message_header(message, 2, &name, &value));
  CHECK(same(name, bytes("empty")) && value.data != NULL && value.size == 0);
  STATUS(PROSODY_ERR_ARGUMENT,
         prosody_message_header(message, message->headers_count, &name, &value));
  CHECK(same(message->trace, bytes("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")));
  CHECK(message->state.data == NULL);
}

static void headers(host *h) {
  prosody_header list[] = {
      {bytes("a"), bytes("1")},
      {bytes("a"), {NULL, 0}},
      {bytes("empty"), {"", 0}},
      {bytes("traceparent"), bytes("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}};
  prosody_outgoing out;
  memset(&out, 0, sizeof out);
  out.size = sizeof out;
  out.topic = bytes("client");
  out.key = bytes("k");
  out.payload = bytes("{\"n\": 1.0}");
  out.headers = list;
  out.headers_count = 4;
  h->inspect = inspect;
  int before = h->events;
  PENDING(prosody_client_send(h->client, h->queue, 70, &out, NULL));
  OK(await(h, 70));
  UNTIL(h, h->events == before + 1);
  h->inspect = NULL;
}

static void unconfigured(void) {
  host h;
  host_init(&h);
  prosody_config *config = mock_config("x");
  set(config, "group_id", "");
  prosody_error error = fresh();
  prosody_status status = prosody_client_create(config, h.queue, 1, &h.client, &error);
  if (status == PROSODY_PENDING) {
    OK(await(&h, 1));
    int32_t state = 7;
    STATUS(PROSODY_ERR_CONFIG, prosody_client_state(h.client, &state, &error));
    CHECK(error.text_size > 0 && state == PROSODY_STATE_UNCONFIGURED);
    CHECK(error.category == PROSODY_CATEGORY_USAGE);
    PENDING(prosody_client_subscribe(h.client, h.queue, 2, NULL));
    STATUS(PROSODY_ERR_CONFIG, await(&h, 2));
    prosody_client_destroy(h.client);
  } else {
    CHECK(error.text_size > 0);
  }
  set(config, "max_concurrency", "many");
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_create(config, h.queue, 1, &h.client, &error));
  CHECK(strstr(error.text, "max_concurrency") != NULL);
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_set(config, bytes("max_conc"), bytes("1"), &error));
  char report[65536];
  size_t size = 0;
  OK(prosody_config_check(config, report, sizeof report, &size, NULL));
  CHECK(size > 2 && memchr(report, 'm', size) != NULL);
  STATUS(PROSODY_SHORT, prosody_config_check(config, report, 1, &size, NULL));
  CHECK(size > 1);
  size_t whole = 0;
  STATUS(PROSODY_SHORT, prosody_options(NULL, 0, &whole, NULL));
  CHECK(whole > 1000);
  prosody_config_destroy(config);
  host_free(&h);
}

/* The environment is read when a client is made, also what was set after the load. */
static void environment(void) {
  char report[65536];
  size_t size;
  prosody_config *config = mock_config("x");
  setenv("PROSODY_MAX_CONCURRENCY", "nonsense", 1);
  OK(prosody_config_check(config, report, sizeof report - 1, &size, NULL));
  report[size] = 0;
  CHECK(strstr(report, "PROSODY_MAX_CONCURRENCY") != NULL);
  unsetenv("PROSODY_MAX_CONCURRENCY");
  OK(prosody_config_check(config, report, sizeof report - 1, &size, NULL));
  report[size] = 0;
  CHECK(strstr(report, "PROSODY_MAX_CONCURRENCY") == NULL);
  prosody_config_destroy(config);
}

static void life(void) {
  host h;
  int32_t number = -1;
  uint32_t count = 99;
  char source[64];
  size_t size;
  host_init(&h);
  prosody_config *config = mock_config("client");
  host_client(&h, config);
  prosody_config_destroy(config); /* the client has its own copy */

  OK(prosody_client_state(h.client, &number, NULL));
  CHECK(number == PROSODY_STATE_CONFIGURED);
  OK(prosody_client_partitions(h.client, &count, NULL));
  CHECK(count == 0);
  OK(prosody_client_stalled(h.client, &number, NULL));
  CHECK(number == 0);
  STATUS(PROSODY_SHORT, prosody_client_source(h.client, source, 2, &size, NULL));
  CHECK(size == 5);
  OK(prosody_client_source(h.client, source, sizeof source, &size, NULL));
  CHECK(size == 5 && memcmp(source, "tests", 5) == 0);

  PENDING(prosody_client_unsubscribe(h.client, h.queue, 2, NULL));
  STATUS(PROSODY_ERR_STATE, await(&h, 2));
  PENDING(prosody_client_subscribe(h.client, h.queue, 3, NULL));
  OK(await(&h, 3));
  PENDING(prosody_client_subscribe(h.client, h.queue, 4, NULL));
  STATUS(PROSODY_ERR_STATE, await(&h, 4));
  OK(prosody_client_state(h.client, &number, NULL));
  CHECK(number == PROSODY_STATE_RUNNING);

  headers(&h);
  int before = h.events;
  for (int i = 0; i < 20; i++)
    PENDING(send_record(h.client, h.queue, 100 + (uint64_t)i, "client", bytes(i % 2 ? "a" : "b"),
                        bytes("{}")));
  for (int i = 0; i < 20; i++) OK(await(&h, 100 + (uint64_t)i));
  UNTIL(&h, h.events == before + 20);
  PENDING(send_record(h.client, h.queue, 5, "client", bytes("a"), sized(NULL, 0)));
  OK(await(&h, 5));
  UNTIL(&h, h.excises == 1);
  OK(prosody_client_partitions(h.client, &count, NULL));
  CHECK(count > 0);

  PENDING(prosody_client_unsubscribe(h.client, h.queue, 6, NULL));
  OK(await(&h, 6));
  PENDING(prosody_client_subscribe(h.client, h.queue, 7, NULL));
  OK(await(&h, 7));
  PENDING(send_record(h.client, h.queue, 8, "client", bytes("again"), bytes("[]")));
  before = h.events;
  UNTIL(&h, h.events == before + 1);

  PENDING(prosody_client_shutdown(h.client, h.queue, 9, NULL));
  PENDING(prosody_client_shutdown(h.client, h.queue, 10, NULL));
  OK(await(&h, 9));
  OK(await(&h, 10));
  OK(prosody_client_state(h.client, &number, NULL));
  CHECK(number == PROSODY_STATE_SHUT_DOWN);
  STATUS(PROSODY_ERR_CLOSED, send_record(h.client, h.queue, 11, "client", bytes("a"), bytes("{}")));
  PENDING(prosody_client_subscribe(h.client, h.queue, 12, NULL));
  STATUS(PROSODY_ERR_CLOSED, await(&h, 12));
  PENDING(prosody_client_shutdown(h.client, h.queue, 13, NULL));
  OK(await(&h, 13));
  prosody_client_destroy(h.client);
  prosody_client_destroy(h.client);
  host_free(&h);
}

/* Calls on a client that is still being made wait for its end; sends keep their order. */
static void early(void) {
  host h;
  host_init(&h);
  prosody_config *config = mock_config("early");
  PENDING(prosody_client_create(config, h.queue, 1, &h.client, NULL));
  PENDING(prosody_client_subscribe(h.client, h.queue, 2, NULL));
  char key[] = "k", payload[] = "{\"a\":1}";
  for (int i = 0; i < 50; i++) {
    PENDING(send_record(h.client, h.queue, 100 + (uint64_t)i, "early", bytes(key), bytes(payload)));
  }
  memset(key, 'x', 1);
  memset(payload, 'x', sizeof payload - 1); /* the bytes were borrowed for the call only */
  OK(await(&h, 1));
  OK(await(&h, 2));
  for (int i = 0; i < 50; i++) {
    OK(await(&h, 100 + (uint64_t)i));
    if (i > 0) CHECK(h.values[h.completions - 1] >= 0);
  }
  UNTIL(&h, h.events == 50);
  for (int i = 0; i < 50; i++) {
    char wanted[16];
    snprintf(wanted, sizeof wanted, "k@%d", i);
    CHECK(strcmp(h.keys[i], wanted) == 0);
  }
  PENDING(prosody_client_shutdown(h.client, h.queue, 3, NULL));
  OK(await(&h, 3));
  prosody_client_destroy(h.client);
  prosody_config_destroy(config);
  host_free(&h);
}

static void topics(void) {
  host h;
  host_init(&h);
  prosody_config *config = mock_config("topics");
  prosody_admin *admin;
  OK(prosody_admin_create(config, &admin, NULL));
  prosody_topic topic;
  memset(&topic, 0, sizeof topic);
  topic.size = sizeof topic;
  topic.name = bytes("made");
  topic.partitions = 3;
  topic.retention_ms = -1;
  PENDING(prosody_admin_create_topic(admin, h.queue, 1, &topic, NULL));
  OK(await(&h, 1));
  PENDING(prosody_admin_create_topic(admin, h.queue, 2, &topic, NULL));
  STATUS(PROSODY_ERR_EXISTS, await(&h, 2));
  PENDING(prosody_admin_delete_topic(admin, h.queue, 3, bytes("made"), NULL));
  OK(await(&h, 3));
  PENDING(prosody_admin_delete_topic(admin, h.queue, 4, bytes("made"), NULL));
  OK(await(&h, 4));
  topic.name = bytes("a b");
  PENDING(prosody_admin_create_topic(admin, h.queue, 5, &topic, NULL));
  STATUS(PROSODY_ERR_INVALID, await(&h, 5));
  prosody_admin_destroy(admin);
  prosody_admin_destroy(admin);
  prosody_config_destroy(config);
  host_free(&h);
}

/* Nothing is left when all is freed, in an order that is the wrong one. */
static void nothing_left(void) {
  host h;
  host_init(&h);
  prosody_config *config = mock_config("left");
  prosody_client *client;
  PENDING(prosody_client_create(config, h.queue, 1, &client, NULL));
  OK(await(&h, 1));
  CHECK(left(client, "config") == 1);
  CHECK(left(client, "queue") == 1);
  CHECK(left(client, "client") == 1);
  CHECK(left(client, "admin") == 0);
  CHECK(left(client, "invocations") == 0);
  prosody_queue_destroy(h.queue);
  prosody_config_destroy(config);
  int32_t state;
  OK(prosody_client_state(client, &state, NULL));
  prosody_client_destroy(client);
}

int main(void) {
  unconfigured();
  environment();
  life();
  early();
  topics();
  nothing_left();
  return 0;
}
