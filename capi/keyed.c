/* The public functions of keyed state, see api.c. */
#include "_cgo_export.h"
#include "check.h"

static int is_item(const prosody_item *item) { return item != NULL && item->size >= sizeof *item; }

/* Copies an item and checks it: it is JSON or a message. */
#define ITEM()                                                                                     \
  NEED(is_item(item), "item: NULL, or size is too small");                                         \
  prosody_item made = *item;                                                                       \
  READABLE(made.topic, "topic");                                                                   \
  if (made.json.size > LARGEST) return refuse(error, PROSODY_ERR_TOO_LARGE, "json: over 1 GiB");   \
  READABLE(made.json, "json");                                                                     \
  NEED((made.topic.data == NULL) != (made.json.data == NULL), "item: either topic or json is "     \
                                                              "null")

#define KEY(name)                                                                                  \
  NEED((name).data != NULL, #name ": null");                                                       \
  READABLE(name, #name)

#define KEYS()                                                                                     \
  NEED(keys != NULL || count == 0, "keys: NULL with a count");                                     \
  NEED(count <= LARGEST / sizeof *keys, "count: too large");                                       \
  if (count == 0) keys = NULL

#define END() NEED(end == PROSODY_BACK || end == PROSODY_FRONT, "end: no such end")

static prosody_status check_collection(prosody_collection *made, const prosody_collection *from,
                                       prosody_error *error) {
  NEED(from != NULL && from->size >= sizeof *from, "collection: NULL, or size is too small");
  *made = *from;
  NEED(made->kind >= PROSODY_KIND_VALUE && made->kind <= PROSODY_KIND_SET,
       "collection: no such kind");
  NEED(made->payload == PROSODY_PAYLOAD_JSON || made->payload == PROSODY_PAYLOAD_MESSAGE,
       "collection: no such payload");
  NEED(made->name.data != NULL, "collection: the name is null");
  NEED(made->read_cache_ms >= -1, "collection: read_cache_ms is below -1");
  READABLE(made->name, "name");
  return PROSODY_OK;
}

prosody_status prosody_state_bind(uint64_t invocation, const prosody_collection *collection,
                                  uint64_t *state, prosody_error *error) {
  ENTER(error);
  prosody_collection made;
  prosody_status status = check_collection(&made, collection, error);
  if (status != PROSODY_OK) return status;
  NEED(state != NULL, "state: NULL");
  return goStateBind(invocation, &made, state, error);
}

#define EACH(name, what)                                                                           \
  prosody_status name(uint64_t state, prosody_queue *queue, uint64_t tag, prosody_error *error) {  \
    ENTER(error);                                                                                  \
    HANDLE(queue);                                                                                 \
    return goStateEach(what, state, RAW(queue), tag, error);                                       \
  }

EACH(prosody_state_commit, SHIM_COMMIT)
EACH(prosody_state_rollback, SHIM_ROLLBACK)
EACH(prosody_state_clear, SHIM_CLEAR)
EACH(prosody_state_empty, SHIM_EMPTY)

prosody_status prosody_state_contains(uint64_t state, prosody_queue *queue, uint64_t tag,
                                      prosody_bytes key, prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  KEY(key);
  return goStateContains(state, RAW(queue), tag, key, error);
}

prosody_status prosody_state_contains_many(uint64_t state, prosody_queue *queue, uint64_t tag,
                                           const prosody_bytes *keys, size_t count, uint8_t *found,
                                           prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  KEYS();
  NEED(found != NULL || count == 0, "found: NULL with a count");
  if (count == 0) found = NULL;
  return goStateContainsMany(state, RAW(queue), tag, (prosody_bytes *)keys, count, found, error);
}

void prosody_state_release(uint64_t state) {
  if (!shim_forked()) goStateRelease(state);
}

prosody_status prosody_value_get(uint64_t state, prosody_queue *queue, uint64_t tag, void *buffer,
                                 size_t capacity, size_t *size, prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  WRITABLE(buffer, capacity);
  return goValueGet(state, RAW(queue), tag, buffer, capacity, size, error);
}

prosody_status prosody_value_set(uint64_t state, prosody_queue *queue, uint64_t tag,
                                 const prosody_item *item, prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  ITEM();
  return goValueSet(state, RAW(queue), tag, &made, error);
}

prosody_status prosody_map_get(uint64_t state, prosody_queue *queue, uint64_t tag,
                               prosody_bytes key, void *buffer, size_t capacity, size_t *size,
                               prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  KEY(key);
  WRITABLE(buffer, capacity);
  return goMapGet(state, RAW(queue), tag, key, buffer, capacity, size, error);
}

prosody_status prosody_map_get_many(uint64_t state, prosody_queue *queue, uint64_t tag,
                                    const prosody_bytes *keys, size_t count, void *buffer,
                                    size_t capacity, size_t *size, prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  KEYS();
  WRITABLE(buffer, capacity);
  return goMapGetMany(state, RAW(queue), tag, (prosody_bytes *)keys, count, buffer, capacity, size,
                      error);
}

prosody_status prosody_map_set(uint64_t state, prosody_queue *queue, uint64_t tag,
                               prosody_bytes key, const prosody_item *item, prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  KEY(key);
  ITEM();
  return goMapSet(state, RAW(queue), tag, key, &made, error);
}

#define CHANGE(name, key, what)                                                                    \
  prosody_status name(uint64_t state, prosody_queue *queue, uint64_t tag, prosody_bytes key,       \
                      prosody_error *error) {                                                      \
    ENTER(error);                                                                                  \
    HANDLE(queue);                                                                                 \
    KEY(key);                                                                                      \
    return goKeyChange(what, state, RAW(queue), tag, key, error);                                  \
  }

CHANGE(prosody_map_remove, key, SHIM_REMOVE)
CHANGE(prosody_set_add, member, SHIM_ADD)
CHANGE(prosody_set_remove, member, SHIM_DISCARD)

prosody_status prosody_deque_push(uint64_t state, prosody_queue *queue, uint64_t tag, int32_t end,
                                  const prosody_item *item, prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  END();
  ITEM();
  return goDequePush(state, RAW(queue), tag, end, &made, error);
}

#define TAKE(name, enter)                                                                          \
  prosody_status name(uint64_t state, prosody_queue *queue, uint64_t tag, int32_t end,             \
                      void *buffer, size_t capacity, size_t *size, prosody_error *error) {         \
    ENTER(error);                                                                                  \
    HANDLE(queue);                                                                                 \
    END();                                                                                         \
    WRITABLE(buffer, capacity);                                                                    \
    return enter(state, RAW(queue), tag, end, buffer, capacity, size, error);                      \
  }

TAKE(prosody_deque_pop, goDequePop)
TAKE(prosody_deque_peek, goDequePeek)

prosody_status prosody_deque_get(uint64_t state, prosody_queue *queue, uint64_t tag, int64_t index,
                                 void *buffer, size_t capacity, size_t *size,
                                 prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  WRITABLE(buffer, capacity);
  return goDequeGet(state, RAW(queue), tag, index, buffer, capacity, size, error);
}

prosody_status prosody_deque_size(uint64_t state, prosody_queue *queue, uint64_t tag,
                                  int64_t *count, prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  NEED(count != NULL, "count: NULL");
  return goDequeSize(state, RAW(queue), tag, count, error);
}

prosody_status prosody_scan_open(uint64_t state, const prosody_scan *query, uint64_t *scan,
                                 prosody_error *error) {
  static const prosody_scan all = {.size = sizeof all};
  ENTER(error);
  if (query == NULL) query = &all;
  NEED(query->size >= sizeof *query, "query: size is too small");
  prosody_scan made = *query;
  NEED((made.flags & ~(uint32_t)0xFF) == 0, "flags: no such flag");
  READABLE(made.prefix, "prefix");
  READABLE(made.first, "first");
  READABLE(made.last, "last");
  READABLE(made.start, "start");
  READABLE(made.stop, "stop");
  NEED(scan != NULL, "scan: NULL");
  return goScanOpen(state, &made, scan, error);
}

prosody_status prosody_scan_next(uint64_t scan, prosody_queue *queue, uint64_t tag, void *buffer,
                                 size_t capacity, size_t *size, uint32_t *count,
                                 prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  NEED(count != NULL, "count: NULL");
  WRITABLE(buffer, capacity);
  *count = 0;
  *size = 0;
  return goScanNext(scan, RAW(queue), tag, buffer, capacity, size, count, error);
}

void prosody_scan_close(uint64_t scan) {
  if (!shim_forked()) goScanClose(scan);
}

prosody_status prosody_reader_open(prosody_client *client, prosody_bytes subsystem,
                                   const prosody_collection *collection, prosody_reader **out,
                                   prosody_error *error) {
  ENTER(error);
  NEED(out != NULL, "out: NULL");
  HANDLE(client);
  READABLE(subsystem, "subsystem");
  prosody_collection made;
  prosody_status status = check_collection(&made, collection, error);
  if (status != PROSODY_OK) return status;
  NEED(made.payload == PROSODY_PAYLOAD_JSON, "collection: messages are not published");
  return goReaderOpen(RAW(client), subsystem, &made, (uintptr_t *)out, error);
}

prosody_status prosody_mock_reader(prosody_client *client, prosody_bytes topic,
                                   const prosody_collection *collection, prosody_reader **out,
                                   prosody_error *error) {
  ENTER(error);
  NEED(out != NULL, "out: NULL");
  HANDLE(client);
  READABLE(topic, "topic");
  prosody_collection made;
  prosody_status status = check_collection(&made, collection, error);
  if (status != PROSODY_OK) return status;
  return goMockReader(RAW(client), topic, &made, (uintptr_t *)out, error);
}

prosody_status prosody_reader_bind(prosody_reader *reader, prosody_bytes key, uint64_t *state,
                                   prosody_error *error) {
  ENTER(error);
  HANDLE(reader);
  KEY(key);
  NEED(state != NULL, "state: NULL");
  return goReaderBind(RAW(reader), key, state, error);
}

void prosody_reader_destroy(prosody_reader *reader) {
  if (reader != NULL && !shim_forked()) goReaderDestroy(RAW(reader));
}
