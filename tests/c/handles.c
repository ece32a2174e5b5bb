/* Every function of the header with handles that are none, and arguments that are malformed: the
   answer is a code, never a crash. The Makefile checks that no function is left out. */
#include "foreign.h"

static prosody_config *config, *stale_config;
static prosody_client *stale_client;
static prosody_queue *stale_queue;
static prosody_admin *admin, *stale_admin;
static prosody_reader *reader, *stale_reader;
static uint64_t token;
static size_t size;
static uint32_t count;
static int32_t number;

static void configurations(void) {
  prosody_bytes name = bytes("group_id"), value = bytes("g"), wrong = sized(NULL, 3);
  EACH(stale_config, h.queue, prosody_config_set(x, name, value, &error));
  EACH(stale_config, h.queue, prosody_config_set_list(x, name, &value, 1, &error));
  EACH(stale_config, h.queue, prosody_config_set_none(x, name, &error));
  EACH(stale_config, h.queue, prosody_config_check(x, buffer, sizeof buffer, &size, &error));
  DESTROY(stale_config, h.queue, prosody_config_destroy(x));

  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_create(NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_set(config, wrong, value, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_set(config, name, wrong, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_set(config, name, sized("", SIZE_MAX), &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_set(config, name, sized("", 1u << 31), &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_set(config, bytes(NULL), value, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_set(config, name, bytes(NULL), &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_set(config, name, bytes("\xff\xfe"), &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_set_list(config, name, NULL, 1, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_set_list(config, name, &value, SIZE_MAX, &error));
  STATUS(PROSODY_ERR_ARGUMENT,
         prosody_config_set_list(config, bytes("subscribed_topics"), &wrong, 1, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_set_none(config, wrong, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_set_none(config, bytes("no_such"), &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_check(config, NULL, 8, &size, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_check(config, buffer, 8, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_options(NULL, 8, &size, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_options(buffer, 8, NULL, &error));
  OK(prosody_config_set_list(config, bytes("subscribed_topics"), NULL, 0, &error));
  OK(prosody_config_set(config, bytes("source_system"), sized((void *)1, 0), &error));
}

static void queues(void) {
  EACH(stale_queue, config,
       prosody_queue_poll(x, buffer, sizeof buffer, 10, &size, &count, &error));
  EACH(stale_queue, config, prosody_queue_dispatch(x, &h.handler, 10, &count, &error));
  fill(stale_queue, config);
  for (int i = 0; i < BAD; i++) {
    STATUS(PROSODY_ERR_HANDLE, prosody_queue_wake(bad[i]));
    CHECK(prosody_queue_fd(bad[i]) == -1);
  }
  DESTROY(stale_queue, config, prosody_queue_destroy(x));

  prosody_queue *q = h.queue;
  prosody_handler small = h.handler;
  small.size = 8;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_queue_create(NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_queue_poll(q, buffer, 8, 0, NULL, &count, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_queue_poll(q, buffer, 8, 0, &size, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_queue_dispatch(q, NULL, 0, &count, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_queue_dispatch(q, &small, 0, &count, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_queue_dispatch(q, &h.handler, -2, &count, &error));
  OK(prosody_queue_poll(q, buffer, 8, 0, &size, &count, &error));

  prosody_message message;
  prosody_record record = {sizeof record, PROSODY_RECORD_LOG, 0, 0};
  memset(&message, 0, sizeof message);
  STATUS(PROSODY_ERR_ARGUMENT, prosody_message_decode(NULL, &message));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_message_decode(&record, &message));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_message_decode(&record, NULL));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_message_header(NULL, 0, NULL, NULL));
  prosody_timer timer;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_timer_decode(NULL, &timer));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_timer_decode(&record, &timer));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_timer_decode(&record, NULL));
  prosody_bytes b;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_answer_decode(bytes("x"), 0, NULL, &b, &b, NULL));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_message_header(&message, 0, &b, &b));
}

static void clients(void) {
  prosody_queue *q = h.queue;
  prosody_client *c = h.client, *out = NULL;
  prosody_outgoing record;
  memset(&record, 0, sizeof record);
  record.size = sizeof record;
  record.topic = bytes("handles");
  record.key = bytes("k");
  record.payload = bytes("{}");
  prosody_outgoing excise = record;
  excise.payload = bytes(NULL);

  EACH(stale_config, q, prosody_client_create(x, q, 9, &out, &error));
  EACH(stale_queue, config, prosody_client_create(config, x, 9, &out, &error));
  EACH(stale_client, q, prosody_client_log(x, q, &error));
  EACH(stale_client, q, prosody_client_subscribe(x, q, 9, &error));
  EACH(stale_queue, config, prosody_client_subscribe(c, x, 9, &error));
  EACH(stale_client, q, prosody_client_unsubscribe(x, q, 9, &error));
  EACH(stale_queue, config, prosody_client_unsubscribe(c, x, 9, &error));
  EACH(stale_client, q, prosody_client_shutdown(x, q, 9, &error));
  EACH(stale_queue, config, prosody_client_shutdown(c, x, 9, &error));
  EACH(stale_client, q, prosody_client_send(x, q, 9, &record, &error));
  EACH(stale_queue, config, prosody_client_send(c, x, 9, &record, &error));
  EACH(stale_client, q, prosody_client_excise(x, q, 9, &excise, &error));
  EACH(stale_queue, config, prosody_client_excise(c, x, 9, &excise, &error));
  prosody_request asks = {sizeof asks, 1, &record.key, 0, &record}, tombs = asks;
  tombs.record = &excise;
  EACH(stale_client, q, prosody_client_request(x, q, 9, &asks, &error));
  EACH(stale_queue, config, prosody_client_request(c, x, 9, &asks, &error));
  EACH(stale_client, q, prosody_client_request_excise(x, q, 9, &tombs, &error));
  EACH(stale_queue, config, prosody_client_request_excise(c, x, 9, &tombs, &error));
  EACH(stale_client, q, prosody_client_abandon(x, q, 9, &error));
  EACH(stale_queue, config, prosody_client_abandon(c, x, 9, &error));
  EACH(stale_client, q, prosody_client_state(x, &number, &error));
  EACH(stale_client, q, prosody_client_partitions(x, &count, &error));
  EACH(stale_client, q, prosody_client_stalled(x, &number, &error));
  EACH(stale_client, q, prosody_client_source(x, buffer, sizeof buffer, &size, &error));
  EACH(stale_client, q, prosody_client_stats(x, buffer, sizeof buffer, &size, &error));
  DESTROY(stale_client, q, prosody_client_destroy(x));
  fill(stale_queue, config);
  for (int i = 1; i < BAD; i++) /* NULL is standard error */
    STATUS(PROSODY_ERR_HANDLE, prosody_client_log(c, bad[i], &error));

  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_create(config, q, 9, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_state(c, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_partitions(c, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_stalled(c, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_source(c, buffer, 8, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_stats(c, NULL, 8, &size, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_send(c, q, 9, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_excise(c, q, 9, &record, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_send(c, q, 9, &excise, &error));
  record.size = 8;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_send(c, q, 9, &record, &error));
  record.size = sizeof record;
  record.key = sized(NULL, SIZE_MAX);
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_send(c, q, 9, &record, &error));
  record.key = sized("k", SIZE_MAX);
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_send(c, q, 9, &record, &error));
  record.key = bytes("k");
  record.payload = sized("{}", 1u << 31);
  STATUS(PROSODY_ERR_TOO_LARGE, prosody_client_send(c, q, 9, &record, &error));
  CHECK(error.category == PROSODY_CATEGORY_PERMANENT);
  record.payload = bytes("{}");
  record.headers_count = 1;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_send(c, q, 9, &record, &error));
  prosody_header header = {bytes(NULL), bytes("v")};
  record.headers = &header;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_send(c, q, 9, &record, &error));
  header.name = sized("n", 1u << 31);
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_send(c, q, 9, &record, &error));
  header.name = bytes("n");
  header.value = sized(NULL, 1);
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_send(c, q, 9, &record, &error));
  error.size = 4; /* an error of unknown size is not written to */
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_state(c, &number, &error));
}

static void timers(uint64_t token) {
  const uint32_t now = PROSODY_TIMER_IMMEDIATE;
  prosody_queue *q = h.queue;
  int64_t seconds[4];
  size_t listed;
  for (uint32_t flags = 0; flags <= now; flags += now) {
    STATUS(PROSODY_ERR_HANDLE, prosody_timer_schedule(token, q, 9, 1, flags, &error));
    STATUS(PROSODY_ERR_HANDLE, prosody_timer_unschedule(token, q, 9, 1, flags, &error));
    STATUS(PROSODY_ERR_HANDLE, prosody_timer_clear(token, q, 9, flags, &error));
  }
  STATUS(PROSODY_ERR_HANDLE, prosody_timer_list(token, q, 9, seconds, 4, &listed, &error));
  EACH(stale_queue, config, prosody_timer_schedule(token, x, 9, 1, now, &error));
  EACH(stale_queue, config, prosody_timer_unschedule(token, x, 9, 1, now, &error));
  EACH(stale_queue, config, prosody_timer_clear(token, x, 9, now, &error));
  EACH(stale_queue, config, prosody_timer_list(token, x, 9, seconds, 4, &listed, &error));

  const int64_t wrong[] = {-1, INT64_MIN, (int64_t)UINT32_MAX + 1, INT64_MAX};
  for (int i = 0; i < 4; i++) {
    STATUS(PROSODY_ERR_INVALID, prosody_timer_schedule(token, q, 9, wrong[i], 0, &error));
    STATUS(PROSODY_ERR_INVALID, prosody_timer_unschedule(token, q, 9, wrong[i], now, &error));
    CHECK(error.category == PROSODY_CATEGORY_PERMANENT);
  }
  STATUS(PROSODY_ERR_ARGUMENT, prosody_timer_schedule(token, q, 9, 1, 4, &error));
  STATUS(PROSODY_ERR_ARGUMENT,
         prosody_timer_unschedule(token, q, 9, 1, PROSODY_TIMER_CLEAR, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_timer_clear(token, q, 9, PROSODY_TIMER_CLEAR, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_timer_list(token, q, 9, NULL, 1, &listed, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_timer_list(token, q, 9, seconds, 4, NULL, &error));
}

static prosody_collection collection(int32_t kind, const char *name) {
  prosody_collection made = {.size = sizeof made, .kind = kind, .name = bytes(name)};
  return made;
}

/* Every function of keyed state with a number that names nothing. */
static void states(uint64_t x) {
  prosody_queue *q = h.queue;
  prosody_collection value = collection(PROSODY_KIND_VALUE, "v");
  prosody_item item = {.size = sizeof item, .json = bytes("1")};
  prosody_bytes key = bytes("k");
  uint8_t found;
  int64_t length;
  STATUS(PROSODY_ERR_HANDLE, prosody_state_bind(x, &value, &token, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_state_commit(x, q, 9, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_state_rollback(x, q, 9, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_state_clear(x, q, 9, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_state_empty(x, q, 9, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_state_contains(x, q, 9, key, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_state_contains_many(x, q, 9, &key, 1, &found, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_state_contains_many(x, q, 9, NULL, 0, NULL, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_value_get(x, q, 9, buffer, 8, &size, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_value_set(x, q, 9, &item, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_map_get(x, q, 9, key, buffer, 8, &size, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_map_get_many(x, q, 9, &key, 1, buffer, 8, &size, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_map_set(x, q, 9, key, &item, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_map_remove(x, q, 9, key, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_set_add(x, q, 9, key, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_set_remove(x, q, 9, key, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_deque_push(x, q, 9, PROSODY_BACK, &item, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_deque_pop(x, q, 9, PROSODY_BACK, buffer, 8, &size, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_deque_peek(x, q, 9, PROSODY_FRONT, buffer, 8, &size, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_deque_get(x, q, 9, -1, buffer, 8, &size, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_deque_size(x, q, 9, &length, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_scan_open(x, NULL, &token, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_scan_next(x, q, 9, buffer, 8, &size, &count, &error));
  prosody_scan_close(x);
  prosody_state_release(x);
}

/* Arguments of keyed state that are malformed, with a state that lives. */
static void operands(uint64_t x) {
  prosody_queue *q = h.queue;
  prosody_collection value = collection(PROSODY_KIND_VALUE, "v");
  prosody_item item = {.size = sizeof item, .json = bytes("1")}, none = {.size = sizeof none};
  prosody_item both = item, small = item, long_ = item;
  prosody_bytes key = bytes("k"), wrong = sized(NULL, 3), latin = bytes("\xff"), null = bytes(NULL);
  uint8_t found;
  both.topic = bytes("t");
  small.size = 8;
  long_.json.size = 1u << 31;
  const int32_t kinds[] = {0, -1, 5, INT32_MAX};
  for (int i = 0; i < 4; i++) {
    prosody_collection odd = collection(kinds[i], "v");
    STATUS(PROSODY_ERR_ARGUMENT, prosody_state_bind(1, &odd, &token, &error));
    odd = value;
    odd.payload = kinds[i] == 0 ? 2 : kinds[i];
    STATUS(PROSODY_ERR_ARGUMENT, prosody_state_bind(1, &odd, &token, &error));
  }
  STATUS(PROSODY_ERR_ARGUMENT, prosody_state_bind(1, NULL, &token, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_state_bind(1, &value, NULL, &error));
  value.name = null;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_state_bind(1, &value, &token, &error));
  value = collection(PROSODY_KIND_VALUE, "v");
  value.size = 8;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_state_bind(1, &value, &token, &error));

  const prosody_item *items[] = {NULL, &none, &both, &small};
  for (int i = 0; i < 4; i++) {
    STATUS(PROSODY_ERR_ARGUMENT, prosody_value_set(x, q, 9, items[i], &error));
    STATUS(PROSODY_ERR_ARGUMENT, prosody_map_set(x, q, 9, key, items[i], &error));
    STATUS(PROSODY_ERR_ARGUMENT, prosody_deque_push(x, q, 9, PROSODY_BACK, items[i], &error));
  }
  STATUS(PROSODY_ERR_TOO_LARGE, prosody_value_set(x, q, 9, &long_, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_deque_push(x, q, 9, 2, &item, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_deque_pop(x, q, 9, -1, buffer, 8, &size, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_deque_peek(x, q, 9, 2, buffer, 8, &size, &error));
  const prosody_bytes keys[] = {wrong, null, sized("k", SIZE_MAX)};
  for (int i = 0; i < 3; i++) {
    STATUS(PROSODY_ERR_ARGUMENT, prosody_map_get(x, q, 9, keys[i], buffer, 8, &size, &error));
    STATUS(PROSODY_ERR_ARGUMENT, prosody_map_set(x, q, 9, keys[i], &item, &error));
    STATUS(PROSODY_ERR_ARGUMENT, prosody_map_remove(x, q, 9, keys[i], &error));
    STATUS(PROSODY_ERR_ARGUMENT, prosody_set_add(x, q, 9, keys[i], &error));
    STATUS(PROSODY_ERR_ARGUMENT, prosody_state_contains(x, q, 9, keys[i], &error));
    STATUS(PROSODY_ERR_ARGUMENT, prosody_state_contains_many(x, q, 9, &keys[i], 1, &found, &error));
    STATUS(PROSODY_ERR_ARGUMENT,
           prosody_map_get_many(x, q, 9, &keys[i], 1, buffer, 8, &size, &error));
    STATUS(PROSODY_ERR_ARGUMENT, prosody_reader_bind(reader, keys[i], &token, &error));
  }
  STATUS(PROSODY_ERR_INVALID, prosody_map_get(x, q, 9, latin, buffer, 8, &size, &error));
  STATUS(PROSODY_ERR_INVALID, prosody_map_get_many(x, q, 9, &latin, 1, buffer, 8, &size, &error));
  STATUS(PROSODY_ERR_INVALID, prosody_map_remove(x, q, 9, latin, &error));
  STATUS(PROSODY_ERR_INVALID, prosody_reader_bind(reader, latin, &token, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_map_get_many(x, q, 9, NULL, 1, buffer, 8, &size, &error));
  STATUS(PROSODY_ERR_ARGUMENT,
         prosody_map_get_many(x, q, 9, &key, SIZE_MAX, buffer, 8, &size, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_state_contains_many(x, q, 9, &key, 1, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_value_get(x, q, 9, NULL, 8, &size, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_value_get(x, q, 9, buffer, 8, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_deque_get(x, q, 9, 0, NULL, 8, &size, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_deque_size(x, q, 9, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_scan_next(x, q, 9, buffer, 8, &size, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_scan_open(x, NULL, NULL, &error));
  prosody_scan query = {.size = sizeof query, .prefix = wrong};
  STATUS(PROSODY_ERR_ARGUMENT, prosody_scan_open(x, &query, &token, &error));
  query.prefix = null;
  query.flags = 256;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_scan_open(x, &query, &token, &error));
  query.size = 8;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_scan_open(x, &query, &token, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_value_get(x, NULL, 9, buffer, 8, &size, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_state_commit(x, NULL, 9, &error));
}

static void readers(void) {
  prosody_collection value = collection(PROSODY_KIND_VALUE, "v");
  prosody_reader *out = NULL;
  uint64_t one, other;
  OK(prosody_reader_open(h.client, bytes("s"), &value, &reader, &error));
  OK(prosody_reader_open(h.client, bytes("s"), &value, &stale_reader, &error));
  OK(prosody_reader_bind(stale_reader, bytes("k"), &other, &error));
  prosody_reader_destroy(stale_reader);
  STATUS(PROSODY_ERR_SETTLED,
         prosody_value_get(other, h.queue, 9, buffer, sizeof buffer, &size, &error));
  EACH(stale_client, config, prosody_reader_open(x, bytes("s"), &value, &out, &error));
  EACH(stale_reader, config, prosody_reader_bind(x, bytes("k"), &token, &error));
  DESTROY(stale_reader, config, prosody_reader_destroy(x));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_reader_open(h.client, bytes(" "), &value, &out, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_reader_open(h.client, bytes("s"), &value, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_reader_open(h.client, bytes("s"), NULL, &out, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_reader_open(h.client, sized(NULL, 1), &value, &out, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_reader_bind(reader, bytes("k"), NULL, &error));
  value.read_cache_ms = -2;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_reader_open(h.client, bytes("s"), &value, &out, &error));
  value.read_cache_ms = 0;
  value.payload = PROSODY_PAYLOAD_MESSAGE;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_reader_open(h.client, bytes("s"), &value, &out, &error));
  OK(prosody_reader_bind(reader, bytes("k"), &one, &error));
  operands(one);
  prosody_state_release(one);
  prosody_state_release(one);
  STATUS(PROSODY_ERR_SETTLED, prosody_state_commit(one, h.queue, 9, &error));
  STATUS(PROSODY_ABSENT, prosody_state_rollback(one, h.queue, 9, &error));
  prosody_reader_destroy(reader);
}

static void invocations(void) {
  uint64_t tokens[] = {0,
                       1,
                       63,
                       64,
                       UINT32_MAX,
                       UINT64_MAX,
                       0xdeadbeefcafe,
                       1ULL << 32,
                       (1ULL << 63) + 5,
                       (uint64_t)(uintptr_t)h.queue};
  for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
    prosody_outcome outcome;
    memset(&outcome, 0, sizeof outcome);
    outcome.size = sizeof outcome;
    outcome.invocation = tokens[i];
    STATUS(PROSODY_ERR_HANDLE, prosody_complete(&outcome, 1, &error));
    STATUS(PROSODY_ERR_HANDLE, prosody_should_cancel(tokens[i]));
    outcome.size = 1;
    STATUS(PROSODY_ERR_ARGUMENT, prosody_complete(&outcome, 1, &error));
    outcome.size = sizeof outcome;
    outcome.response = sized(NULL, 1);
    STATUS(PROSODY_ERR_ARGUMENT, prosody_complete(&outcome, 1, &error));
    timers(tokens[i]);
    states(tokens[i]);
  }
  STATUS(PROSODY_ERR_ARGUMENT, prosody_complete(NULL, 1, &error));
  prosody_outcome one = {.size = sizeof one};
  STATUS(PROSODY_ERR_ARGUMENT, prosody_complete(&one, SIZE_MAX, &error));
}

static void admins(void) {
  prosody_queue *q = h.queue;
  prosody_admin *out = NULL;
  prosody_topic topic;
  memset(&topic, 0, sizeof topic);
  topic.size = sizeof topic;
  topic.name = bytes("t");
  EACH(stale_config, q, prosody_admin_create(x, &out, &error));
  EACH(stale_admin, q, prosody_admin_create_topic(x, q, 9, &topic, &error));
  EACH(stale_queue, config, prosody_admin_create_topic(admin, x, 9, &topic, &error));
  EACH(stale_admin, q, prosody_admin_delete_topic(x, q, 9, bytes("t"), &error));
  EACH(stale_queue, config, prosody_admin_delete_topic(admin, x, 9, bytes("t"), &error));
  DESTROY(stale_admin, q, prosody_admin_destroy(x));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_admin_create(config, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_admin_create_topic(admin, q, 9, NULL, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_admin_delete_topic(admin, q, 9, sized(NULL, 1), &error));
  topic.partitions = -1;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_admin_create_topic(admin, q, 9, &topic, &error));
  topic.size = 1;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_admin_create_topic(admin, q, 9, &topic, &error));
}

/* The functions of mock mode: their arguments, and servers that nobody has. */
static void mocks(void) {
  prosody_bytes servers = bytes("embedded:1"), other = bytes("other:1"), none = bytes(NULL);
  prosody_bytes bad = sized(NULL, 1), topic = bytes("nothing");
  prosody_collection value = {
      .size = sizeof value, .kind = PROSODY_KIND_VALUE, .name = bytes("mine")};
  prosody_reader *reader;
  _Alignas(8) char buffer[256];
  size_t size;
  uint32_t count = 7;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_mock_advance(servers, -1, NULL));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_mock_advance(servers, INT64_MAX, NULL));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_mock_idle(servers, h.queue, 1, -1, NULL));
  STATUS(PROSODY_ERR_HANDLE, prosody_mock_idle(servers, NULL, 1, 0, NULL));
  STATUS(PROSODY_ERR_HANDLE, prosody_mock_idle(servers, stale_queue, 1, 0, NULL));
  STATUS(PROSODY_ERR_HANDLE, prosody_mock_idle(servers, (prosody_queue *)h.client, 1, 0, NULL));
  STATUS(PROSODY_ERR_ARGUMENT,
         prosody_mock_records(servers, topic, 0, NULL, 1, &size, &count, NULL));
  STATUS(PROSODY_ERR_ARGUMENT,
         prosody_mock_records(servers, topic, 0, buffer, sizeof buffer, NULL, &count, NULL));
  STATUS(PROSODY_ERR_ARGUMENT,
         prosody_mock_records(servers, topic, 0, buffer, sizeof buffer, &size, NULL, NULL));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_mock_fail(servers, 0, none, 1, NULL));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_mock_fail(servers, 32, none, 1, NULL));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_mock_fail(servers, PROSODY_MOCK_READ, none, -2, NULL));
  STATUS(PROSODY_ERR_ARGUMENT,
         prosody_mock_rebalance(servers, topic, PROSODY_CANCEL_TIMEOUT, NULL));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_mock_rebalance(servers, topic, PROSODY_CANCEL_LOST, NULL));
  STATUS(PROSODY_ERR_STATE, prosody_mock_forget(servers, NULL));
  STATUS(PROSODY_ERR_HANDLE, prosody_mock_reader(NULL, topic, &value, &reader, NULL));
  STATUS(PROSODY_ERR_HANDLE, prosody_mock_reader(stale_client, topic, &value, &reader, NULL));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_mock_reader(h.client, topic, &value, NULL, NULL));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_mock_reader(h.client, topic, NULL, &reader, NULL));
  for (int i = 0; i < 3; i++) {
    prosody_bytes wrong = i == 0 ? other : i == 1 ? none : bad;
    STATUS(PROSODY_ERR_ARGUMENT, prosody_mock_advance(wrong, 0, NULL));
    STATUS(PROSODY_ERR_ARGUMENT, prosody_mock_idle(wrong, h.queue, 1, 0, NULL));
    STATUS(PROSODY_ERR_ARGUMENT,
           prosody_mock_records(wrong, topic, 0, buffer, sizeof buffer, &size, &count, NULL));
    STATUS(PROSODY_ERR_ARGUMENT, prosody_mock_fail(wrong, PROSODY_MOCK_READ, none, 1, NULL));
    STATUS(PROSODY_ERR_ARGUMENT,
           prosody_mock_rebalance(wrong, topic, PROSODY_CANCEL_REVOKED, NULL));
    STATUS(PROSODY_ERR_ARGUMENT, prosody_mock_forget(wrong, NULL));
  }
  OK(prosody_mock_advance(servers, 0, NULL));
  STATUS(PROSODY_END,
         prosody_mock_records(servers, topic, 0, buffer, sizeof buffer, &size, &count, NULL));
  CHECK(count == 0 && size == 0);
}

int main(void) {
  CHECK(prosody_abi_version() == PROSODY_ABI_VERSION);
  CHECK(strcmp(prosody_version(), PROSODY_VERSION) == 0);
  CHECK(strcmp(prosody_status_name(PROSODY_ERR_SETTLED), "PROSODY_ERR_SETTLED") == 0);
  CHECK(strcmp(prosody_status_name(-5), "unknown") == 0);
  OK(prosody_signals_fix());

  host_init(&h);
  config = mock_config("handles");
  host_client(&h, config);
  OK(prosody_admin_create(config, &admin, NULL));
  OK(prosody_config_create(&stale_config, NULL));
  OK(prosody_queue_create(&stale_queue, NULL));
  PENDING(prosody_client_create(config, stale_queue, 1, &stale_client, NULL));
  OK(prosody_admin_create(config, &stale_admin, NULL));
  prosody_config_destroy(stale_config);
  prosody_queue_destroy(stale_queue);
  prosody_client_destroy(stale_client);
  prosody_admin_destroy(stale_admin);

  EACH(stale_queue, config, prosody_telemetry_flush(x, 1, &error));
  EACH(stale_queue, config, prosody_telemetry_shutdown(x, 1, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_trace_enter(sized(NULL, 1), bytes(NULL)));

  error = fresh();
  configurations();
  queues();
  clients();
  error = fresh();
  invocations();
  readers();
  mocks();
  admins();

  /* Freed addresses do not come back: an old handle does not name a new object. */
  for (int i = 0; i < 1000; i++) {
    prosody_config *one, *two;
    OK(prosody_config_create(&one, NULL));
    prosody_config_destroy(one);
    OK(prosody_config_create(&two, NULL));
    CHECK(one != two);
    STATUS(PROSODY_ERR_HANDLE, prosody_config_set(one, bytes("group_id"), bytes("g"), NULL));
    prosody_config_destroy(two);
  }
  prosody_admin_destroy(admin);
  prosody_config_destroy(config);
  prosody_client_destroy(h.client);
  host_free(&h);
  return 0;
}
