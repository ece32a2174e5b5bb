/* A program of the previous header: its structs, constants and functions meet the library of today.
   It stays as it is; a release copies its own header here, and adds what it has more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "prosody.h"

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                    \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

#define DONE(call) CHECK((call) == PROSODY_OK)
#define BEGUN(call) CHECK((call) == PROSODY_PENDING)

static prosody_queue *queue;
static prosody_client *client;
static int messages, excises, timers, retries, logs;
static uint64_t answered;     /* the tag of the last completion */
static prosody_status answer; /* and its status */
static int64_t second;        /* of the timer */
static _Alignas(8) char room[4096];
static size_t size;

static prosody_bytes text(const char *from) {
  prosody_bytes made = {from, strlen(from)};
  return made;
}

static void end(uint64_t invocation, int32_t result) {
  prosody_outcome outcome = {.size = sizeof outcome, .result = result, .invocation = invocation};
  if (result != PROSODY_RESULT_SUCCESS) outcome.error_text = text("as the test wants");
  DONE(prosody_complete(&outcome, 1, NULL));
}

static void on_message(void *user_data, const prosody_message *message) {
  prosody_bytes name, value;
  CHECK(user_data == &messages && message->payload.size > 0);
  if (message->retry == 0 && messages == 0) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < message->headers_count; i++) {
      DONE(prosody_message_header(message, i, &name, &value));
      found += name.size == 4 && memcmp(name.data, "note", 4) == 0 && value.data == NULL;
    }
    CHECK(found == 1);
    retries++;
    end(message->invocation, PROSODY_RESULT_TRANSIENT);
    messages++;
    return;
  }
  prosody_collection total = {
      .size = sizeof total, .kind = PROSODY_KIND_VALUE, .name = text("total")};
  prosody_collection names = {
      .size = sizeof names, .kind = PROSODY_KIND_MAP, .name = text("names")};
  prosody_item item = {.size = sizeof item, .json = text("12")};
  prosody_scan all = {.size = sizeof all, .limit = 10};
  uint64_t state, map, scan;
  uint32_t count;
  prosody_status status;
  DONE(prosody_state_bind(message->invocation, &total, &state, NULL));
  DONE(prosody_value_set(state, queue, 0, &item, NULL));
  DONE(prosody_value_get(state, queue, 0, room, sizeof room, &size, NULL));
  CHECK(size == 2 && memcmp(room, "12", 2) == 0);
  DONE(prosody_state_bind(message->invocation, &names, &map, NULL));
  DONE(prosody_map_set(map, queue, 0, text("a"), &item, NULL));
  DONE(prosody_scan_open(map, &all, &scan, NULL));
  status = prosody_scan_next(scan, queue, 0, room, sizeof room, &size, &count, NULL);
  CHECK(status == PROSODY_OK && count == 1);
  CHECK(((prosody_entry *)room)->value_size == 2 && ((prosody_entry *)room)->key_size == 1);
  prosody_scan_close(scan);
  second = (int64_t)time(NULL) + 86400;
  DONE(prosody_timer_schedule(message->invocation, NULL, 0, second, 0, NULL));
  DONE(prosody_should_cancel(message->invocation));
  messages++;
  end(message->invocation, PROSODY_RESULT_SUCCESS);
}

static void on_excise(void *user_data, const prosody_message *message) {
  CHECK(user_data == &messages && message->payload.data == NULL);
  excises++;
  end(message->invocation, PROSODY_RESULT_PERMANENT);
}

static void on_timer(void *user_data, const prosody_timer *timer) {
  CHECK(user_data == &messages && timer->second == second && timer->key.size == 1);
  timers++;
  end(timer->invocation, PROSODY_RESULT_SUCCESS);
}

static void on_completion(void *user_data, const prosody_completion *completion) {
  CHECK(user_data == &messages);
  answered = completion->tag;
  answer = completion->status;
}

static void on_log(void *user_data, const prosody_log *line) {
  CHECK(user_data == &messages && line->text.size > 0);
  logs++;
}

static prosody_handler handler = {.size = sizeof handler,
                                  .user_data = &messages,
                                  .on_message = on_message,
                                  .on_excise = on_excise,
                                  .on_timer = on_timer,
                                  .on_completion = on_completion,
                                  .on_log = on_log};

#define UNTIL(condition)                                                                           \
  do {                                                                                             \
    for (time_t limit_ = time(NULL) + 60; !(condition);) {                                         \
      CHECK(time(NULL) < limit_);                                                                  \
      DONE(prosody_queue_dispatch(queue, &handler, 50, NULL, NULL));                               \
    }                                                                                              \
  } while (0)

#define AWAIT(tag)                                                                                 \
  do {                                                                                             \
    UNTIL(answered == (tag));                                                                      \
    CHECK(answer == PROSODY_OK);                                                                   \
  } while (0)

int main(void) {
  prosody_config *config;
  prosody_admin *admin;
  prosody_reader *reader;
  prosody_error error = {.size = sizeof error};
  CHECK(prosody_abi_version() == PROSODY_ABI_VERSION);
  DONE(prosody_config_create(&config, NULL));
  const char *options[][2] = {{"mock", "true"},
                              {"bootstrap_servers", "previous"},
                              {"group_id", "previous"},
                              {"source_system", "test"},
                              {"subsystem", "previous"},
                              {"retry_base", "1ms"},
                              {"defer_enabled", "false"},
                              {"state_collections",
                               "[{\"name\":\"total\",\"kind\":\"value\",\"published\":true},"
                               "{\"name\":\"names\",\"kind\":\"map\"}]"}};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    DONE(prosody_config_set(config, text(options[i][0]), text(options[i][1]), NULL));
  prosody_bytes subscribed = text("previous");
  DONE(prosody_config_set_list(config, text("subscribed_topics"), &subscribed, 1, NULL));
  DONE(prosody_config_check(config, room, sizeof room, &size, NULL));
  CHECK(size == 2 && memcmp(room, "[]", 2) == 0);
  CHECK(prosody_config_set(config, text("no_such"), text("1"), &error) == PROSODY_ERR_ARGUMENT);
  CHECK(error.status == PROSODY_ERR_ARGUMENT && error.category == PROSODY_CATEGORY_USAGE);
  prosody_config_destroy(config);

  DONE(prosody_config_create(&config, NULL));
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    DONE(prosody_config_set(config, text(options[i][0]), text(options[i][1]), NULL));
  DONE(prosody_config_set_list(config, text("subscribed_topics"), &subscribed, 1, NULL));
  DONE(prosody_queue_create(&queue, NULL));
  DONE(prosody_admin_create(config, &admin, NULL));
  prosody_topic topic = {.size = sizeof topic, .partitions = 2, .name = subscribed};
  BEGUN(prosody_admin_create_topic(admin, queue, 1, &topic, NULL));
  AWAIT(1);
  BEGUN(prosody_client_create(config, queue, 2, &client, NULL));
  AWAIT(2);
  BEGUN(prosody_client_subscribe(client, queue, 3, NULL));
  AWAIT(3);

  prosody_header header = {text("note"), {NULL, 0}};
  prosody_outgoing record = {.size = sizeof record,
                             .headers_count = 1,
                             .topic = subscribed,
                             .key = text("k"),
                             .payload = text("{\"n\":1}"),
                             .headers = &header};
  BEGUN(prosody_client_send(client, queue, 4, &record, NULL));
  AWAIT(4);
  UNTIL(messages == 2);
  CHECK(retries == 1);
  prosody_outgoing excise = {.size = sizeof excise, .topic = subscribed, .key = text("k")};
  BEGUN(prosody_client_excise(client, queue, 5, &excise, NULL));
  AWAIT(5);
  UNTIL(excises == 1);
  DONE(prosody_mock_advance(text("previous"), INT64_C(90000000), NULL));
  UNTIL(timers == 1);

  prosody_collection total = {
      .size = sizeof total, .kind = PROSODY_KIND_VALUE, .name = text("total"), .read_cache_ms = -1};
  uint64_t state;
  DONE(prosody_reader_open(client, text("previous"), &total, &reader, NULL));
  DONE(prosody_reader_bind(reader, text("k"), &state, NULL));
  prosody_status status = prosody_value_get(state, queue, 6, room, sizeof room, &size, NULL);
  if (status == PROSODY_PENDING) AWAIT(6);
  prosody_state_release(state);
  prosody_reader_destroy(reader);

  int32_t number;
  uint32_t count;
  DONE(prosody_client_state(client, &number, NULL));
  CHECK(number == PROSODY_STATE_RUNNING);
  DONE(prosody_client_partitions(client, &count, NULL));
  CHECK(count == 2);
  DONE(prosody_client_stalled(client, &number, NULL));
  BEGUN(prosody_client_shutdown(client, queue, 7, NULL));
  AWAIT(7);
  DONE(prosody_client_state(client, &number, NULL));
  CHECK(number == PROSODY_STATE_SHUT_DOWN);
  CHECK(prosody_client_send(client, queue, 8, &record, NULL) == PROSODY_ERR_CLOSED);
  CHECK(logs > 0);
  prosody_client_destroy(client);
  prosody_admin_destroy(admin);
  prosody_config_destroy(config);
  prosody_queue_destroy(queue);
  return 0;
}
