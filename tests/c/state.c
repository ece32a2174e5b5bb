/* Keyed state from a handler's hands: collections, the transaction, scans, messages, readers. */
#include "test.h"

static const char definitions[] =
    "[{\"name\":\"v\",\"kind\":\"value\",\"published\":true,\"read_cache\":false},"
    "{\"name\":\"m\",\"kind\":\"map\",\"published\":true,\"read_cache\":false},"
    "{\"name\":\"d\",\"kind\":\"deque\"},{\"name\":\"s\",\"kind\":\"set\"},"
    "{\"name\":\"last\",\"kind\":\"value\",\"payload\":\"message\"},"
    "{\"name\":\"log\",\"kind\":\"deque\",\"payload\":\"message\"}]";

static host h;
static prosody_error error;
static _Alignas(8) char buffer[1 << 16];
static size_t size;
static uint32_t count;
static int32_t partition;
static int64_t offset;

static void inspect(const prosody_message *message) {
  partition = message->partition;
  offset = message->offset;
}

static void start(const char *topic) {
  prosody_config *config = mock_config(topic);
  set(config, "retry_base", "1ms");
  set(config, "max_retry_delay", "2ms");
  set(config, "mode", "pipeline");
  set(config, "defer_enabled", "false");
  set(config, "subsystem", topic);
  set(config, "state_collections", definitions);
  host_init(&h);
  host_client(&h, config);
  prosody_config_destroy(config);
  PENDING(prosody_client_subscribe(h.client, h.queue, 2, NULL));
  OK(await(&h, 2));
  h.hold = 1;
  h.inspect = inspect;
}

static void finish(void) {
  CHECK(left(h.client, "states") == 0);
  h.hold = 0;
  PENDING(prosody_client_shutdown(h.client, h.queue, 99, NULL));
  OK(await(&h, 99));
  prosody_client_destroy(h.client);
  host_free(&h);
}

/* Has a message of a key handled, and gives its invocation. */
static uint64_t handle(const char *topic, const char *key) {
  int before = h.events;
  PENDING(send_record(h.client, h.queue, 50, topic, bytes(key), bytes("{\"n\":1}")));
  UNTIL(&h, h.events == before + 1);
  return h.invocations[before];
}

static prosody_collection collection(int32_t kind, const char *name) {
  prosody_collection made = {.size = sizeof made, .kind = kind, .name = bytes(name)};
  return made;
}

static uint64_t bind(uint64_t at, int32_t kind, const char *name, int32_t payload) {
  prosody_collection made = collection(kind, name);
  made.payload = payload;
  uint64_t state = 0;
  OK(prosody_state_bind(at, &made, &state, NULL));
  return state;
}

#define VALUE(at) bind(at, PROSODY_KIND_VALUE, "v", 0)
#define MAP(at) bind(at, PROSODY_KIND_MAP, "m", 0)
#define DEQUE(at) bind(at, PROSODY_KIND_DEQUE, "d", 0)
#define SET(at) bind(at, PROSODY_KIND_SET, "s", 0)

/* What a call comes to, also when its answer comes later: then it is in the buffer as well. */
static prosody_status settle(prosody_status status) {
  if (status != PROSODY_PENDING) return status;
  status = await(&h, 9);
  h.tags[h.completions - 1] = 0;
  CHECK(h.data_size <= sizeof buffer);
  if (h.data_size > 0) memcpy(buffer, h.data, h.data_size);
  size = h.data_size;
  count = (uint32_t)h.values[h.completions - 1];
  return status;
}

#define DONE(call) STATUS(PROSODY_OK, settle(call))
#define NONE(call) STATUS(PROSODY_ABSENT, settle(call))
#define ROOM buffer, sizeof buffer, &size, &error

static int is(const char *text) { return size == strlen(text) && memcmp(buffer, text, size) == 0; }

static prosody_item json(const char *text) {
  prosody_item item = {.size = sizeof item, .json = bytes(text)};
  return item;
}

static prosody_status value_set(uint64_t state, const char *text) {
  prosody_item item = json(text);
  return settle(prosody_value_set(state, h.queue, 9, &item, &error));
}

static prosody_status map_set(uint64_t state, const char *key, const char *text) {
  prosody_item item = json(text);
  return settle(prosody_map_set(state, h.queue, 9, bytes(key), &item, &error));
}

static prosody_status push(uint64_t state, int32_t end, const char *text) {
  prosody_item item = json(text);
  return settle(prosody_deque_push(state, h.queue, 9, end, &item, &error));
}

/* Values: absence, bytes as they were, refusals, buffers that are too small. */
static void values(void) {
  start("values");
  uint64_t at = handle("values", "k"), v = VALUE(at), state = 0;
  CHECK(v == VALUE(at));
  NONE(prosody_value_get(v, h.queue, 9, ROOM));
  const char *text = " {\"b\": 1.0, \"a\": 18446744073709551615}";
  OK(value_set(v, text));
  OK(prosody_value_get(v, h.queue, 9, ROOM));
  CHECK(is(text));
  STATUS(PROSODY_SHORT, prosody_value_get(v, h.queue, 9, buffer, 5, &size, NULL));
  CHECK(size == strlen(text));
  STATUS(PROSODY_SHORT, prosody_value_get(v, h.queue, 9, NULL, 0, &size, NULL));
  const char *wrong[] = {"null", " null ", "{", "", "nan", "\"\xff\"", "1 2"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    error = fresh();
    STATUS(PROSODY_ERR_INVALID, value_set(v, wrong[i]));
    CHECK(error.category == PROSODY_CATEGORY_PERMANENT);
  }
  DONE(prosody_value_get(v, h.queue, 9, ROOM));
  CHECK(size == strlen(text));
  DONE(prosody_state_clear(v, h.queue, 9, &error));
  NONE(prosody_value_get(v, h.queue, 9, ROOM));

  /* Calls of other kinds. */
  prosody_item item = json("1");
  STATUS(PROSODY_ERR_HANDLE, prosody_map_get(v, h.queue, 9, bytes("k"), ROOM));
  STATUS(PROSODY_ERR_HANDLE, prosody_map_remove(v, h.queue, 9, bytes("k"), &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_set_add(MAP(at), h.queue, 9, bytes("k"), &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_map_set(SET(at), h.queue, 9, bytes("k"), &item, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_value_get(MAP(at), h.queue, 9, ROOM));
  STATUS(PROSODY_ERR_HANDLE, prosody_deque_pop(MAP(at), h.queue, 9, 0, ROOM));
  STATUS(PROSODY_ERR_HANDLE, prosody_value_set(DEQUE(at), h.queue, 9, &item, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_state_empty(v, h.queue, 9, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_scan_open(v, NULL, &state, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_value_get(at, h.queue, 9, ROOM)); /* an invocation */
  STATUS(PROSODY_ERR_HANDLE, prosody_should_cancel(v));
  OK(end(h.invocations[0], PROSODY_RESULT_SUCCESS));

  at = handle("values", "k");
  prosody_collection unknown = collection(PROSODY_KIND_VALUE, "x");
  STATUS(PROSODY_ERR_UNREGISTERED, prosody_state_bind(at, &unknown, &state, &error));
  CHECK(error.category == PROSODY_CATEGORY_PERMANENT);
  CHECK(strstr(error.text, "\"x\" is not registered") != NULL);
  unknown = collection(PROSODY_KIND_MAP, "v");
  STATUS(PROSODY_ERR_IDENTITY, prosody_state_bind(at, &unknown, &state, &error));
  unknown = collection(PROSODY_KIND_VALUE, "v");
  unknown.payload = PROSODY_PAYLOAD_MESSAGE;
  STATUS(PROSODY_ERR_IDENTITY, prosody_state_bind(at, &unknown, &state, &error));
  OK(end(at, PROSODY_RESULT_SUCCESS));
  UNTIL(&h, left(h.client, "invocations") == 0);
  finish();
}

/* A failed attempt leaves nothing, a commit stays, a rollback goes back; then all is over. */
static void transactions(void) {
  start("transactions");
  uint64_t at = handle("transactions", "k"), v = VALUE(at), m = MAP(at), scan;
  OK(value_set(v, "1"));
  NONE(prosody_state_rollback(m, h.queue, 9, &error));
  DONE(prosody_state_commit(v, h.queue, 9, &error));
  NONE(prosody_state_commit(v, h.queue, 9, &error));
  OK(value_set(v, "2"));
  DONE(prosody_state_rollback(v, h.queue, 9, &error));
  DONE(prosody_value_get(v, h.queue, 9, ROOM));
  CHECK(is("1"));
  OK(value_set(v, "3"));
  OK(map_set(m, "a", "3"));
  OK(prosody_scan_open(m, NULL, &scan, &error));
  OK(end(at, PROSODY_RESULT_TRANSIENT));

  error = fresh();
  STATUS(PROSODY_ERR_SETTLED, prosody_value_get(v, h.queue, 9, ROOM));
  CHECK(strcmp(error.text, "state access attempted on a terminated context") == 0);
  STATUS(PROSODY_ERR_SETTLED, value_set(v, "4"));
  CHECK(strcmp(error.text, "state mutation attempted on a settled session") == 0);
  STATUS(PROSODY_ERR_SETTLED, prosody_state_commit(v, h.queue, 9, &error));
  NONE(prosody_state_rollback(v, h.queue, 9, &error));
  STATUS(PROSODY_ERR_SETTLED, prosody_scan_next(scan, h.queue, 9, buffer, 8, &size, &count, NULL));
  prosody_collection value = collection(PROSODY_KIND_VALUE, "v");
  STATUS(PROSODY_ERR_SETTLED, prosody_state_bind(at, &value, &v, &error));

  UNTIL(&h, h.events == 2); /* the retry */
  STATUS(PROSODY_ERR_SETTLED, prosody_value_get(v, h.queue, 9, ROOM));
  at = h.invocations[1];
  v = VALUE(at);
  DONE(prosody_value_get(v, h.queue, 9, ROOM));
  CHECK(is("1"));
  NONE(prosody_state_empty(MAP(at), h.queue, 9, &error));
  OK(value_set(v, "5"));
  OK(end(at, PROSODY_RESULT_SUCCESS));
  at = handle("transactions", "other");
  NONE(prosody_value_get(VALUE(at), h.queue, 9, ROOM));
  OK(end(at, PROSODY_RESULT_SUCCESS));
  at = handle("transactions", "k");
  DONE(prosody_value_get(VALUE(at), h.queue, 9, ROOM));
  CHECK(is("5"));
  OK(end(at, PROSODY_RESULT_SUCCESS));
  UNTIL(&h, left(h.client, "invocations") == 0);
  finish();
}

static const prosody_entry *entry(size_t *at) {
  const prosody_entry *e = (const prosody_entry *)(buffer + *at);
  CHECK(e->size % 8 == 0 && *at + e->size <= size);
  *at += e->size;
  return e;
}

static int has(const prosody_entry *e, const char *key, const char *value) {
  const char *at = (const char *)(e + 1);
  size_t length = e->value_size == PROSODY_NULL_SIZE ? 0 : e->value_size;
  if ((value == NULL) != (e->value_size == PROSODY_NULL_SIZE)) return 0;
  if (value != NULL && (length != strlen(value) || memcmp(at, value, length) != 0)) return 0;
  return e->key_size == strlen(key) && memcmp(at + length, key, e->key_size) == 0;
}

/* Reads a scan to its end and counts its entries. */
static uint32_t walk(uint64_t scan, size_t capacity) {
  uint32_t total = 0;
  for (;;) {
    prosody_status status =
        settle(prosody_scan_next(scan, h.queue, 9, buffer, capacity, &size, &count, &error));
    if (status == PROSODY_END) return total;
    CHECK(status == PROSODY_OK && count > 0 && count <= 256);
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) entry(&at);
    CHECK(at == size);
    total += count;
  }
}

/* Maps and sets: points, many at once, scans with bounds, entries that do not fit. */
static void maps(void) {
  start("maps");
  uint64_t at = handle("maps", "k"), m = MAP(at), s = SET(at), scan;
  const char *keys[] = {"c", "a", "b"};
  for (int i = 0; i < 3; i++) {
    OK(map_set(m, keys[i], i == 0 ? "\"long text\"" : "1"));
    DONE(prosody_set_add(s, h.queue, 9, bytes(keys[i]), &error));
  }
  DONE(prosody_map_get(m, h.queue, 9, bytes("c"), ROOM));
  CHECK(is("\"long text\""));
  NONE(prosody_map_get(m, h.queue, 9, bytes("x"), ROOM));
  DONE(prosody_state_contains(s, h.queue, 9, bytes("a"), &error));
  NONE(prosody_state_contains(s, h.queue, 9, bytes("x"), &error));
  DONE(prosody_state_empty(m, h.queue, 9, &error));
  prosody_bytes some[] = {bytes("b"), bytes("x"), bytes("c"), bytes("b")};
  uint8_t found[4];
  DONE(prosody_state_contains_many(m, h.queue, 9, some, 4, found, &error));
  CHECK(found[0] == 1 && found[1] == 0 && found[2] == 1 && found[3] == 1);
  STATUS(PROSODY_SHORT, prosody_map_get_many(m, h.queue, 9, some, 4, buffer, 8, &size, NULL));
  DONE(prosody_map_get_many(m, h.queue, 9, some, 4, ROOM));
  size_t here = 0;
  CHECK(has(entry(&here), "", "1"));
  CHECK(has(entry(&here), "", NULL));
  CHECK(has(entry(&here), "", "\"long text\""));
  CHECK(has(entry(&here), "", "1"));
  CHECK(here == size);

  OK(prosody_scan_open(m, NULL, &scan, &error));
  STATUS(PROSODY_SHORT, prosody_scan_next(scan, h.queue, 9, buffer, 8, &size, &count, &error));
  CHECK(size == 32 && count == 0);
  OK(prosody_scan_next(scan, h.queue, 9, buffer, 64, &size, &count, &error));
  CHECK(size == 64 && count == 2);
  here = 0;
  CHECK(has(entry(&here), "a", "1"));
  CHECK(has(entry(&here), "b", "1"));
  STATUS(PROSODY_SHORT, prosody_scan_next(scan, h.queue, 9, NULL, 0, &size, &count, &error));
  OK(prosody_scan_next(scan, h.queue, 9, buffer, size, &size, &count, &error));
  here = 0;
  CHECK(has(entry(&here), "c", "\"long text\""));
  STATUS(PROSODY_END, settle(prosody_scan_next(scan, h.queue, 9, buffer, 0, &size, &count, NULL)));
  prosody_scan_close(scan);
  prosody_scan_close(scan);
  STATUS(PROSODY_ERR_SETTLED, prosody_scan_next(scan, h.queue, 9, buffer, 8, &size, &count, NULL));

  prosody_scan query = {.size = sizeof query,
                        .flags = PROSODY_SCAN_BACKWARD | PROSODY_SCAN_KEYS |
                                 PROSODY_SCAN_FIRST_EXCLUSIVE,
                        .first = bytes("c"),
                        .limit = 1};
  OK(prosody_scan_open(s, &query, &scan, &error));
  DONE(prosody_scan_next(scan, h.queue, 9, buffer, sizeof buffer, &size, &count, &error));
  here = 0;
  CHECK(count == 1 && has(entry(&here), "b", NULL));
  CHECK(walk(scan, 64) == 0);
  memset(&query, 0, sizeof query);
  query.size = sizeof query;
  query.prefix = bytes("b");
  OK(prosody_scan_open(m, &query, &scan, &error));
  CHECK(walk(scan, 64) == 1);
  query.prefix = bytes("");
  query.start = bytes("b");
  query.stop = bytes("c");
  OK(prosody_scan_open(m, &query, &scan, &error));
  CHECK(walk(scan, 64) == 1);
  DONE(prosody_map_remove(m, h.queue, 9, bytes("a"), &error));
  DONE(prosody_set_remove(s, h.queue, 9, bytes("a"), &error));
  OK(prosody_scan_open(s, NULL, &scan, &error));
  CHECK(walk(scan, 64) == 2);

  char key[16];
  for (int i = 0; i < 1000; i++) {
    snprintf(key, sizeof key, "%04d", i);
    OK(map_set(m, key, "7"));
  }
  OK(end(at, PROSODY_RESULT_SUCCESS));
  at = handle("maps", "k");
  OK(prosody_scan_open(MAP(at), NULL, &scan, &error));
  CHECK(walk(scan, 4096) == 1002);
  OK(prosody_scan_open(MAP(at), NULL, &scan, &error)); /* not read: it ends with the attempt */
  OK(end(at, PROSODY_RESULT_SUCCESS));
  UNTIL(&h, left(h.client, "invocations") == 0);
  finish();
}

/* Deques: both ends, indexes, an item that does not fit stays. */
static void deques(void) {
  start("deques");
  uint64_t at = handle("deques", "k"), d = DEQUE(at), scan;
  int64_t length = -1;
  NONE(prosody_deque_pop(d, h.queue, 9, PROSODY_BACK, ROOM));
  OK(push(d, PROSODY_BACK, "2"));
  OK(push(d, PROSODY_BACK, "\"three\""));
  OK(push(d, PROSODY_FRONT, "1"));
  OK(prosody_deque_size(d, h.queue, 9, &length, &error));
  CHECK(length == 3);
  STATUS(PROSODY_SHORT, prosody_deque_pop(d, h.queue, 9, PROSODY_BACK, buffer, 6, &size, NULL));
  CHECK(size == 7);
  OK(prosody_deque_size(d, h.queue, 9, &length, &error));
  CHECK(length == 3);
  DONE(prosody_deque_peek(d, h.queue, 9, PROSODY_FRONT, ROOM));
  CHECK(is("1"));
  DONE(prosody_deque_get(d, h.queue, 9, -2, ROOM));
  CHECK(is("2"));
  NONE(prosody_deque_get(d, h.queue, 9, 3, ROOM));
  NONE(prosody_deque_get(d, h.queue, 9, INT64_MIN, ROOM));
  DONE(prosody_deque_pop(d, h.queue, 9, PROSODY_BACK, ROOM));
  CHECK(is("\"three\""));
  prosody_scan query = {.size = sizeof query,
                        .flags = PROSODY_SCAN_FIRST | PROSODY_SCAN_LAST,
                        .first_index = 1,
                        .last_index = UINT64_MAX};
  OK(prosody_scan_open(d, &query, &scan, &error));
  DONE(prosody_scan_next(scan, h.queue, 9, buffer, sizeof buffer, &size, &count, &error));
  size_t here = 0;
  const prosody_entry *only = entry(&here);
  CHECK(count == 1 && only->index == 1 && has(only, "", "2"));
  OK(end(at, PROSODY_RESULT_SUCCESS));
  UNTIL(&h, left(h.client, "invocations") == 0);
  finish();
}

/* Messages: stored by place, read as the record that was delivered. */
static void messages(void) {
  start("messages");
  uint64_t at = handle("messages", "k");
  uint64_t last = bind(at, PROSODY_KIND_VALUE, "last", PROSODY_PAYLOAD_MESSAGE);
  uint64_t backlog = bind(at, PROSODY_KIND_DEQUE, "log", PROSODY_PAYLOAD_MESSAGE), scan;
  prosody_item item = {
      .size = sizeof item, .partition = partition, .offset = offset, .topic = bytes("messages")};
  prosody_item text = json("1");
  CHECK(prosody_value_set(last, h.queue, 9, &text, &error) >= PROSODY_ERR_ARGUMENT);
  CHECK(prosody_value_set(VALUE(at), h.queue, 9, &item, &error) >= PROSODY_ERR_ARGUMENT);
  DONE(prosody_value_set(last, h.queue, 9, &item, &error));
  DONE(prosody_deque_push(backlog, h.queue, 9, PROSODY_BACK, &item, &error));
  OK(end(at, PROSODY_RESULT_SUCCESS));
  int64_t first = offset;

  at = handle("messages", "k");
  last = bind(at, PROSODY_KIND_VALUE, "last", PROSODY_PAYLOAD_MESSAGE);
  backlog = bind(at, PROSODY_KIND_DEQUE, "log", PROSODY_PAYLOAD_MESSAGE);
  for (int i = 0; i < 2; i++) {
    size_t here = 0;
    const prosody_record *record = (const prosody_record *)buffer;
    if (i == 0) {
      DONE(prosody_value_get(last, h.queue, 9, ROOM));
    } else {
      OK(prosody_scan_open(backlog, NULL, &scan, &error));
      DONE(prosody_scan_next(scan, h.queue, 9, buffer, sizeof buffer, &size, &count, &error));
      record = (const prosody_record *)(entry(&here) + 1);
    }
    prosody_message message;
    OK(prosody_message_decode(record, &message));
    CHECK(message.invocation == 0 && message.offset == first && message.partition == partition);
    CHECK(message.payload.size == 7 && memcmp(message.payload.data, "{\"n\":1}", 7) == 0);
    CHECK(message.key.size == 1 && message.timestamp_ms > 0 && message.source.data != NULL);
  }
  OK(end(at, PROSODY_RESULT_SUCCESS));
  UNTIL(&h, left(h.client, "invocations") == 0);
  finish();
}

/* What one service publishes another reads: by key, read only, without a subscription. */
static void published(void) {
  start("published");
  uint64_t at = handle("published", "k"), state, scan;
  OK(value_set(VALUE(at), "\"seen\""));
  OK(map_set(MAP(at), "a", "1"));
  OK(end(at, PROSODY_RESULT_SUCCESS));
  UNTIL(&h, left(h.client, "invocations") == 0);

  prosody_collection value = collection(PROSODY_KIND_VALUE, "v");
  prosody_collection map = collection(PROSODY_KIND_MAP, "m");
  prosody_reader *values, *maps, *none;
  value.read_cache_ms = map.read_cache_ms = -1;
  OK(prosody_reader_open(h.client, bytes(" published "), &value, &values, &error));
  OK(prosody_reader_open(h.client, bytes("published"), &map, &maps, &error));
  OK(prosody_reader_open(h.client, bytes("nobody"), &map, &none, &error));
  OK(prosody_reader_bind(values, bytes("k"), &state, &error));
  DONE(prosody_value_get(state, h.queue, 9, ROOM));
  CHECK(is("\"seen\""));
  STATUS(PROSODY_ERR_HANDLE, value_set(state, "2"));
  STATUS(PROSODY_ERR_HANDLE, prosody_state_clear(state, h.queue, 9, &error));
  STATUS(PROSODY_ERR_HANDLE, prosody_state_commit(state, h.queue, 9, &error));
  prosody_state_release(state);
  STATUS(PROSODY_ERR_SETTLED, prosody_value_get(state, h.queue, 9, ROOM));
  OK(prosody_reader_bind(values, bytes("absent"), &state, &error));
  NONE(prosody_value_get(state, h.queue, 9, ROOM));

  OK(prosody_reader_bind(maps, bytes("k"), &state, &error));
  OK(prosody_scan_open(state, NULL, &scan, &error));
  CHECK(walk(scan, 64) == 1);
  OK(prosody_scan_open(state, NULL, &scan, &error));
  prosody_reader_destroy(maps); /* with its states and their scans */
  STATUS(PROSODY_ERR_SETTLED, prosody_scan_next(scan, h.queue, 9, buffer, 8, &size, &count, NULL));
  prosody_reader_destroy(values);
  OK(prosody_reader_bind(none, bytes("k"), &state, &error));
  STATUS(PROSODY_ERR_UNPUBLISHED, settle(prosody_map_get(state, h.queue, 9, bytes("a"), ROOM)));
  prosody_reader_destroy(none);
  finish();
}

int main(void) {
  error = fresh();
  values();
  transactions();
  maps();
  deques();
  messages();
  published();
  return 0;
}
