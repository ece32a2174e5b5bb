/* Part of prosody.h, which includes it: keyed state.
 *
 * Each key has collections: values, maps, sets and deques, of JSON or of messages. The option
 * state_collections lists those that a client may use, as JSON: [{"name": "total", "kind": "value"}].
 *
 * Changes belong to the handler's attempt: its other calls see them at once, they become durable
 * with its success, and a failed attempt leaves nothing. See examples/c/counter.c.
 *
 * How the calls end. PROSODY_OK: done, the answer is in the caller's memory. PROSODY_PENDING: the
 * store has to be asked; the answer is in a completion record, whose status is one of those here.
 * PROSODY_ABSENT: there is nothing. PROSODY_SHORT: the buffer is too small; nothing has happened,
 * call again. What an attempt has read or written once is at hand: calls then end at once, and do
 * not look at the queue.
 *
 * After the attempt calls give PROSODY_ERR_SETTLED; prosody_state_rollback has nothing to do then.
 * PROSODY_ERR_REVOKED: the partition has gone. PROSODY_ERR_HANDLE: a state of another kind, or of
 * a reader where the call would change something. An invocation does not end before its pending
 * calls. */
#ifndef PROSODY_H
#error "include prosody.h"
#endif
#ifndef PROSODY_STATE_PART_H
#define PROSODY_STATE_PART_H

enum {
  PROSODY_KIND_VALUE = 1,
  PROSODY_KIND_MAP = 2, /* keys are UTF-8, in the order of their bytes */
  PROSODY_KIND_DEQUE = 3,
  PROSODY_KIND_SET = 4
};

enum { PROSODY_PAYLOAD_JSON = 0, PROSODY_PAYLOAD_MESSAGE = 1 };

/* Which collection is meant. */
typedef struct prosody_collection {
  uint32_t size;   /* sizeof(prosody_collection) */
  int32_t kind;    /* PROSODY_KIND_... */
  int32_t payload; /* PROSODY_PAYLOAD_...; of a set 0 */
  uint32_t reserved;
  prosody_bytes name;
  int64_t read_cache_ms; /* for readers: how old an answer may be; 0: as state_read_cache says,
                            -1: read anew each time */
} prosody_collection;

/* What is stored: JSON, or a message by its place. Store only messages that the client has handed
   out: a place without one cannot be read again. The JSON null gives PROSODY_ERR_INVALID. */
typedef struct prosody_item {
  uint32_t size; /* sizeof(prosody_item) */
  int32_t partition;
  int64_t offset;
  prosody_bytes topic; /* null for JSON */
  prosody_bytes json;  /* null for a message */
} prosody_item;

/* Answers with several items are packed entries, aligned to 8 where the buffer is. The value (JSON,
   or for a message a prosody_message_record), then the key follow without gaps. The data of
   completions are aligned as well. A single answer has the value alone. */
typedef struct prosody_entry {
  uint32_t size;       /* of the whole entry, a multiple of 8 */
  uint32_t value_size; /* PROSODY_NULL_SIZE: there is none */
  int64_t index;       /* of a deque: from the front; else 0 */
  uint32_t key_size;   /* of a map or set, in scans */
  uint32_t reserved;
} prosody_entry;

/* ---- All collections ------------------------------------------------------------------------- */
/* Gives a collection of an invocation's key; the same one for the same collection.
   PROSODY_ERR_UNREGISTERED: state_collections does not list it. PROSODY_ERR_IDENTITY: it is of
   another kind there. */
PROSODY_API prosody_status prosody_state_bind(uint64_t invocation,
                                              const prosody_collection *collection, uint64_t *state,
                                              prosody_error *error);

/* Makes the changes of the collection durable now, whatever becomes of the attempt.
   PROSODY_ABSENT: there was none. */
PROSODY_API prosody_status prosody_state_commit(uint64_t state, prosody_queue *queue, uint64_t tag,
                                                prosody_error *error);

/* Drops the changes of the collection since the last commit. PROSODY_ABSENT: there was none. */
PROSODY_API prosody_status prosody_state_rollback(uint64_t state, prosody_queue *queue,
                                                  uint64_t tag, prosody_error *error);

/* Removes all that the collection holds. */
PROSODY_API prosody_status prosody_state_clear(uint64_t state, prosody_queue *queue, uint64_t tag,
                                               prosody_error *error);

/* Tells whether a map, set or deque holds something: PROSODY_ABSENT when it is empty. */
PROSODY_API prosody_status prosody_state_empty(uint64_t state, prosody_queue *queue, uint64_t tag,
                                               prosody_error *error);

/* Tells whether a map or set has a key: PROSODY_ABSENT when not. */
PROSODY_API prosody_status prosody_state_contains(uint64_t state, prosody_queue *queue,
                                                  uint64_t tag, prosody_bytes key,
                                                  prosody_error *error);

/* Tells for each of `count` keys of a map or set whether it is there: 1 or 0 in `found`, or in the
   data of the completion. */
PROSODY_API prosody_status prosody_state_contains_many(uint64_t state, prosody_queue *queue,
                                                       uint64_t tag, const prosody_bytes *keys,
                                                       size_t count, uint8_t *found,
                                                       prosody_error *error);

/* Frees a state of a reader. One of an invocation ends with that. */
PROSODY_API void prosody_state_release(uint64_t state);

/* ---- Value ----------------------------------------------------------------------------------- */
/* Reads the value. */
PROSODY_API prosody_status prosody_value_get(uint64_t state, prosody_queue *queue, uint64_t tag,
                                             void *buffer, size_t capacity, size_t *size,
                                             prosody_error *error);

/* Sets the value. */
PROSODY_API prosody_status prosody_value_set(uint64_t state, prosody_queue *queue, uint64_t tag,
                                             const prosody_item *item, prosody_error *error);

/* ---- Map and set ----------------------------------------------------------------------------- */
/* Reads the value of a key. */
PROSODY_API prosody_status prosody_map_get(uint64_t state, prosody_queue *queue, uint64_t tag,
                                           prosody_bytes key, void *buffer, size_t capacity,
                                           size_t *size, prosody_error *error);

/* Reads the values of keys: one packed entry for each, in their order, without the key. */
PROSODY_API prosody_status prosody_map_get_many(uint64_t state, prosody_queue *queue, uint64_t tag,
                                                const prosody_bytes *keys, size_t count,
                                                void *buffer, size_t capacity, size_t *size,
                                                prosody_error *error);

/* Sets the value of a key. */
PROSODY_API prosody_status prosody_map_set(uint64_t state, prosody_queue *queue, uint64_t tag,
                                           prosody_bytes key, const prosody_item *item,
                                           prosody_error *error);

/* Removes a key. One that does not exist is no error. */
PROSODY_API prosody_status prosody_map_remove(uint64_t state, prosody_queue *queue, uint64_t tag,
                                              prosody_bytes key, prosody_error *error);

/* Adds a member. */
PROSODY_API prosody_status prosody_set_add(uint64_t state, prosody_queue *queue, uint64_t tag,
                                           prosody_bytes member, prosody_error *error);

/* Removes a member. One that does not exist is no error. */
PROSODY_API prosody_status prosody_set_remove(uint64_t state, prosody_queue *queue, uint64_t tag,
                                              prosody_bytes member, prosody_error *error);

/* ---- Deque ----------------------------------------------------------------------------------- */
enum { PROSODY_BACK = 0, PROSODY_FRONT = 1 };

/* Adds an item at an end. Over its capacity the deque loses items of the other end. */
PROSODY_API prosody_status prosody_deque_push(uint64_t state, prosody_queue *queue, uint64_t tag,
                                              int32_t end, const prosody_item *item,
                                              prosody_error *error);

/* Removes the item at an end and gives it. */
PROSODY_API prosody_status prosody_deque_pop(uint64_t state, prosody_queue *queue, uint64_t tag,
                                             int32_t end, void *buffer, size_t capacity,
                                             size_t *size, prosody_error *error);

/* Reads the item at an end. */
PROSODY_API prosody_status prosody_deque_peek(uint64_t state, prosody_queue *queue, uint64_t tag,
                                              int32_t end, void *buffer, size_t capacity,
                                              size_t *size, prosody_error *error);

/* Reads the item at an index from the front; a negative one counts from the back. */
PROSODY_API prosody_status prosody_deque_get(uint64_t state, prosody_queue *queue, uint64_t tag,
                                             int64_t index, void *buffer, size_t capacity,
                                             size_t *size, prosody_error *error);

/* Tells how many items there are; pending, it is the value of the completion. */
PROSODY_API prosody_status prosody_deque_size(uint64_t state, prosody_queue *queue, uint64_t tag,
                                              int64_t *count, prosody_error *error);

/* ---- Scans ----------------------------------------------------------------------------------- */
enum {
  PROSODY_SCAN_BACKWARD = 1,
  PROSODY_SCAN_KEYS = 2,            /* without values */
  PROSODY_SCAN_FIRST_EXCLUSIVE = 4, /* begin behind `first` */
  PROSODY_SCAN_LAST_EXCLUSIVE = 8,  /* end before `last` */
  /* of a deque: which positions are set */
  PROSODY_SCAN_FIRST = 16,
  PROSODY_SCAN_LAST = 32,
  PROSODY_SCAN_START = 64,
  PROSODY_SCAN_STOP = 128
};

/* What a scan gives; all conditions hold at once. `first` and `last` are in the order of the scan: a
   backward one begins at the high end. `start` and `stop` are a range that ascends, without `stop`.
   Maps and sets take the bounds as keys, null for none; deques as positions from the front. */
typedef struct prosody_scan {
  uint32_t size;  /* sizeof(prosody_scan) */
  uint32_t flags; /* PROSODY_SCAN_... */
  uint64_t limit; /* of entries; 0: none */
  prosody_bytes prefix;
  prosody_bytes first;
  prosody_bytes last;
  prosody_bytes start;
  prosody_bytes stop;
  uint64_t first_index;
  uint64_t last_index;
  uint64_t start_index;
  uint64_t stop_index;
} prosody_scan;

/* Begins to read a map, set or deque; `query` NULL: all, forward. The scan sees the changes of the
   attempt. It ends with the attempt, or with the state of a reader. */
PROSODY_API prosody_status prosody_scan_open(uint64_t state, const prosody_scan *query,
                                             uint64_t *scan, prosody_error *error);

/* Gives the next entries that are ready, packed, at most 256 at a time. PROSODY_END: there are no
   more. PROSODY_SHORT: not even the first one fits. Pending, the value of the completion is the
   count. One call at a time: PROSODY_ERR_STATE while another one is pending. */
PROSODY_API prosody_status prosody_scan_next(uint64_t scan, prosody_queue *queue, uint64_t tag,
                                             void *buffer, size_t capacity, size_t *size,
                                             uint32_t *count, prosody_error *error);

/* Ends a scan; a second time is fine. Later calls of prosody_scan_next give PROSODY_ERR_SETTLED. */
PROSODY_API void prosody_scan_close(uint64_t scan);

/* ---- Published state ------------------------------------------------------------------------- */
/* What another service publishes: its option subsystem, and "published": true in the definition of
   the collection. A client reads it without a subscription; it sees what is committed. */
typedef struct prosody_reader prosody_reader;

/* Makes a reader. Nothing is read yet: only a read tells PROSODY_ERR_UNPUBLISHED when nobody
   publishes the collection, which may change, and PROSODY_ERR_IDENTITY when it is of another kind. */
PROSODY_API prosody_status prosody_reader_open(prosody_client *client, prosody_bytes subsystem,
                                               const prosody_collection *collection,
                                               prosody_reader **out, prosody_error *error);

/* Gives the collection of a key, for the functions above that read. It is freed by
   prosody_state_release; destroying the reader frees it as well. */
PROSODY_API prosody_status prosody_reader_bind(prosody_reader *reader, prosody_bytes key,
                                               uint64_t *state, prosody_error *error);

/* Frees a reader. */
PROSODY_API void prosody_reader_destroy(prosody_reader *reader);

#endif
