/*
 * Prosody: a Kafka client for services that keep state per key.
 *
 * This header is the contract and the reference manual of the C ABI, version 1. It includes its
 * parts, prosody/timer.h, prosody/state.h and prosody/callback.h.
 *
 * How it works. The library never calls the host. All that reaches the host comes out of a queue,
 * which the host reads on a thread of its own: records to handle, answers to asynchronous calls,
 * log lines. The host ends each record that it handles with prosody_complete. See
 * examples/c/consumer.c for a whole service.
 *
 * Rules for every function; its comment names only what differs.
 *   Ownership  Arguments are borrowed for the call. Results are written to memory of the caller.
 *              A handle is freed by its _destroy, once; NULL and a second time are fine there.
 *              Handles may be freed in any order.
 *   Threads    Any thread may call, also several at once.
 *   Blocking   No call waits inside the library, but for prosody_queue_poll and
 *              prosody_queue_dispatch, which wait as long as their timeout says.
 *   Errors     The status says what happened; `error`, which may be NULL, is filled from
 *              PROSODY_ERR_ARGUMENT on. A NULL, stale, random or foreign handle gives
 *              PROSODY_ERR_HANDLE. A struct with a smaller `size` than this header's,
 *              an option that is not UTF-8, NULL with a size: PROSODY_ERR_ARGUMENT.
 *   Faults     After a fault of its own the library refuses work: each queue gets one fatal
 *              record, and calls return PROSODY_ERR_POISONED.
 *   Fork       In a forked child each function returns PROSODY_ERR_FORKED, and a _destroy does
 *              nothing. Create clients after the fork.
 *   Signals    The library installs no handlers, but the Go runtime owns SIGSEGV, SIGPIPE and
 *              SIGURG. Install yours with SA_ONSTACK, or call prosody_signals_fix afterwards.
 *   Unloading  The library stays loaded: dlclose has no effect. Do not load a second Go library
 *              into the process.
 */
#ifndef PROSODY_H
#define PROSODY_H

#include <stddef.h>
#include <stdint.h>

#define PROSODY_API __attribute__((visibility("default"))) /* gcc and clang */

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this contract. A host compares it with prosody_abi_version(). */
#define PROSODY_ABI_VERSION 1u

/* The version of the library that this header came with. */
#define PROSODY_VERSION "0.1.0"

/* ---- Values ---------------------------------------------------------------------------------- */
/* Borrowed bytes. `data` NULL is null; `size` 0 with other data is empty. A NUL is data. */
typedef struct prosody_bytes {
  const void *data;
  size_t size;
} prosody_bytes;

/* The size that stands for null inside packed records. */
#define PROSODY_NULL_SIZE UINT32_MAX

/* What a call came to. The hundreds group them: the meaning of a group is fixed. */
typedef int32_t prosody_status;
enum {
  PROSODY_OK = 0,
  PROSODY_PENDING = 1, /* the answer comes as a completion record with the tag */
  PROSODY_ABSENT = 2,  /* there is nothing */
  PROSODY_END = 3,     /* there is no more */
  PROSODY_SHORT = 4,   /* the buffer is too small; *size tells the need; nothing was consumed */

  /* 100: the caller's fault */
  PROSODY_ERR_ARGUMENT = 100, /* an argument or option value is malformed */
  PROSODY_ERR_HANDLE = 101,   /* not a live handle of the right kind */
  PROSODY_ERR_CONFIG = 102,   /* the options do not make a working whole */
  PROSODY_ERR_STATE = 103,    /* not now: already subscribed, not subscribed, ... */
  PROSODY_ERR_SETTLED = 104,  /* the invocation is over already */

  /* 200: life cycle */
  PROSODY_ERR_CLOSED = 200,   /* the client is shut down, the queue destroyed */
  PROSODY_ERR_FORKED = 201,   /* this is a forked child */
  PROSODY_ERR_POISONED = 202, /* the library met a fault of its own; start anew */
  PROSODY_ERR_REVOKED = 203,  /* the partition went to another member */

  /* 300: transient, trying again may help */
  PROSODY_ERR_TIMEOUT = 300,
  PROSODY_ERR_KAFKA = 301,
  PROSODY_ERR_STORE = 302,
  PROSODY_ERR_CANCELLED = 303,
  PROSODY_ERR_INTERNAL = 304,    /* a failure of no kind above; the text tells */
  PROSODY_ERR_UNPUBLISHED = 305, /* nobody publishes the collection yet */

  /* 400: permanent, trying again is pointless */
  PROSODY_ERR_TOO_LARGE = 400,
  PROSODY_ERR_INVALID = 401,     /* a key, topic name, payload or time is not allowed */
  PROSODY_ERR_EXISTS = 402,      /* the topic exists already */
  PROSODY_ERR_IDENTITY = 403,    /* a collection is of another kind */
  PROSODY_ERR_UNREGISTERED = 404 /* state_collections does not list the collection */
};

/* The class of an error, for hosts that want to decide by kind. */
enum {
  PROSODY_CATEGORY_NONE = 0,
  PROSODY_CATEGORY_USAGE = 1,
  PROSODY_CATEGORY_CLOSED = 2,
  PROSODY_CATEGORY_TRANSIENT = 3,
  PROSODY_CATEGORY_PERMANENT = 4,
  PROSODY_CATEGORY_FATAL = 5
};

/* Filled when a call fails. Set `size`; nothing has to be freed. */
typedef struct prosody_error {
  uint32_t size; /* in: sizeof(prosody_error) */
  prosody_status status;
  int32_t category;
  uint32_t text_size; /* of the whole text; `text` holds what fits, NUL-ended */
  char text[1008];
} prosody_error;

/* ---- Library --------------------------------------------------------------------------------- */
/* Returns the contract that the loaded library fulfils. Works in a forked child. */
PROSODY_API uint32_t prosody_abi_version(void);

/* Returns the library's version, such as "0.1.0". Static text. */
PROSODY_API const char *prosody_version(void);

/* Returns the name of a status, such as "PROSODY_ERR_CLOSED"; "unknown" for others. Static text. */
PROSODY_API const char *prosody_status_name(prosody_status status);

/* Adds SA_ONSTACK to the signal handlers that the host installed after the library was loaded.
   Without it a signal that meets a Go stack can end the process. */
PROSODY_API prosody_status prosody_signals_fix(void);

/* Writes the table of options as JSON: an array of objects with name, environment, type, default
   and range. PROSODY_SHORT when it does not fit. */
PROSODY_API prosody_status prosody_options(void *buffer, size_t capacity, size_t *size,
                                           prosody_error *error);

/* ---- Configuration --------------------------------------------------------------------------- */
/* Options for a client. The names and the text of the values are those of the environment:
   prosody_config_set(config, "max_concurrency", "8") says the same as PROSODY_MAX_CONCURRENCY=8. An
   option that is set beats the environment; the environment is read when a client is created.
   `kafka.NAME` passes a property to librdkafka. docs/configuration.md lists all options. */
typedef struct prosody_config prosody_config;

/* Makes an empty configuration. */
PROSODY_API prosody_status prosody_config_create(prosody_config **out, prosody_error *error);

/* Sets an option. PROSODY_ERR_ARGUMENT when no option has the name; what is wrong with a value is
   told by prosody_config_check and prosody_client_create. */
PROSODY_API prosody_status prosody_config_set(prosody_config *config, prosody_bytes name,
                                              prosody_bytes value, prosody_error *error);

/* Sets an option that takes a list, item by item: commas do not split items. */
PROSODY_API prosody_status prosody_config_set_list(prosody_config *config, prosody_bytes name,
                                                   const prosody_bytes *items, size_t count,
                                                   prosody_error *error);

/* Switches an option off that takes `none`. */
PROSODY_API prosody_status prosody_config_set_none(prosody_config *config, prosody_bytes name,
                                                   prosody_error *error);

/* Writes every fault of the options and the environment as JSON: an array of objects with option,
   environment, value, rule and stage; [] when all is well. Secrets are left out. */
PROSODY_API prosody_status prosody_config_check(prosody_config *config, void *buffer,
                                                size_t capacity, size_t *size,
                                                prosody_error *error);

/* Frees a configuration. Clients made with it keep their own copy. */
PROSODY_API void prosody_config_destroy(prosody_config *config);

/* ---- Queue ----------------------------------------------------------------------------------- */
typedef struct prosody_queue prosody_queue;
/* Kinds of record. Hosts skip kinds that they do not know. */
enum {
  PROSODY_RECORD_MESSAGE = 1,
  PROSODY_RECORD_EXCISE = 2,
  PROSODY_RECORD_TIMER = 3,
  PROSODY_RECORD_CANCEL = 4,
  PROSODY_RECORD_COMPLETION = 5,
  PROSODY_RECORD_LOG = 6,
  PROSODY_RECORD_FATAL = 7
};

/* Flags of a message, excise or timer record. */
enum {
  PROSODY_FLAG_FAILURE = 1, /* this attempt follows a failure */
  PROSODY_FLAG_RESPONSE = 2 /* the sender waits for a response */
};

/* Each packed record starts with this, aligned to 8. Byte order is that of the machine. */
typedef struct prosody_record {
  uint32_t size; /* of the whole record, a multiple of 8 */
  uint16_t kind;
  uint16_t flags;
  uint64_t token; /* the invocation; of a completion the caller's tag */
} prosody_record;

/* A message or excise record. The bytes of topic, key, payload, source, trace, state and headers
   follow without gaps. A size of PROSODY_NULL_SIZE means null. A header is u32 name size, u32 value
   size or PROSODY_NULL_SIZE, name, value. */
typedef struct prosody_message_record {
  prosody_record head;
  int64_t offset;
  int64_t timestamp_ms; /* since the epoch */
  int32_t partition;
  uint32_t retry; /* 0 at first, 1 for the first retry */
  uint32_t topic_size;
  uint32_t key_size;
  uint32_t payload_size; /* null for an excise record */
  uint32_t source_size;  /* source system of the sender */
  uint32_t trace_size;   /* W3C traceparent */
  uint32_t state_size;   /* W3C tracestate */
  uint32_t headers_size;
  uint32_t headers_count;
} prosody_message_record;

/* Why a handler is to stop. */
enum {
  PROSODY_CANCEL_TIMEOUT = 1,
  PROSODY_CANCEL_REVOKED = 2,
  PROSODY_CANCEL_SHUTDOWN = 3,
  PROSODY_CANCEL_LOST = 4
};

/* Asks the host to stop the handler of an invocation, which it still completes. */
typedef struct prosody_cancel_record {
  prosody_record head;
  int32_t reason;
  uint32_t reserved;
} prosody_cancel_record;

/* The end of an asynchronous call. Text (what went wrong), then data follow. */
typedef struct prosody_completion_record {
  prosody_record head;
  prosody_status status;
  int32_t category;
  int64_t value; /* by call; of a send the offset */
  int64_t extra; /* by call; of a send the partition */
  uint32_t text_size;
  uint32_t data_size;
} prosody_completion_record;

/* A line of the log. Target, text and fields (a JSON object) follow. */
typedef struct prosody_log_record {
  prosody_record head;
  int64_t time_ns; /* since the epoch */
  int32_t level;   /* 5 trace, 10 debug, 20 info, 30 warning, 40 error */
  uint32_t target_size;
  uint32_t text_size;
  uint32_t fields_size;
} prosody_log_record;

/* The library met a fault of its own and refuses work from now on. Text follows. */
typedef struct prosody_fatal_record {
  prosody_record head;
  uint32_t text_size;
  uint32_t reserved;
} prosody_fatal_record;

/* Makes a queue. One queue may serve several clients. */
PROSODY_API prosody_status prosody_queue_create(prosody_queue **out, prosody_error *error);

/* Returns a descriptor that is readable while records wait or a wake is due; -1 for a bad handle.
   It belongs to the queue: do not read or close it. */
PROSODY_API int prosody_queue_fd(prosody_queue *queue);

/* Fills the buffer with as many records as are ready and fit. `buffer` is aligned to 8. Waits at
   most timeout_ms for the first one; 0 does not wait, -1 has no limit. A signal, or
   prosody_queue_wake, ends the wait with no record. When the first record does not fit,
   PROSODY_SHORT and *size, the need. Records of a client come in the order in which they were made;
   of log lines only the newest are kept. PROSODY_ERR_CLOSED when the queue goes meanwhile. */
PROSODY_API prosody_status prosody_queue_poll(prosody_queue *queue, void *buffer, size_t capacity,
                                              int32_t timeout_ms, size_t *size, uint32_t *count,
                                              prosody_error *error);

/* Ends the wait of one poll, now or the next that finds nothing. */
PROSODY_API prosody_status prosody_queue_wake(prosody_queue *queue);

/* Frees a queue. Its open invocations fail and come again; later records for it are dropped. */
PROSODY_API void prosody_queue_destroy(prosody_queue *queue);

/* ---- Client ---------------------------------------------------------------------------------- */
/* Asynchronous calls take a queue and a tag, and return PROSODY_PENDING when they have begun. Then
   exactly one completion record with the tag comes out of the queue, perhaps before the call
   returns. When they return something else, none comes. Errors may come in both ways. */
typedef struct prosody_client prosody_client;

enum {
  PROSODY_STATE_UNCONFIGURED = 0, /* cannot consume */
  PROSODY_STATE_CONFIGURED = 1,
  PROSODY_STATE_RUNNING = 2,
  PROSODY_STATE_SHUT_DOWN = 3
};

/* Makes a client. PROSODY_ERR_ARGUMENT: an option's value is malformed. PROSODY_ERR_CONFIG: an
   option is missing, or options contradict each other. Otherwise *out is a handle, also while the
   call is pending: asynchronous calls wait for its end, others return PROSODY_ERR_STATE. A failed
   completion leaves a client that is shut down. Settings that only the consumer needs do not fail
   here: see prosody_client_state. Log lines go to `queue`. */
PROSODY_API prosody_status prosody_client_create(prosody_config *config, prosody_queue *queue,
                                                 uint64_t tag, prosody_client **out,
                                                 prosody_error *error);

/* Sends the client's log lines to another queue; NULL means standard error. */
PROSODY_API prosody_status prosody_client_log(prosody_client *client, prosody_queue *queue,
                                              prosody_error *error);

/* Starts to consume the subscribed topics; records come out of `queue`. PROSODY_ERR_STATE when
   already subscribed, PROSODY_ERR_CONFIG when the settings do not allow it. */
PROSODY_API prosody_status prosody_client_subscribe(prosody_client *client, prosody_queue *queue,
                                                    uint64_t tag, prosody_error *error);

/* Stops to consume: handlers end, offsets are committed, the group is left. Handlers get a cancel
   record near the end of shutdown_timeout. PROSODY_ERR_STATE when not subscribed. */
PROSODY_API prosody_status prosody_client_unsubscribe(prosody_client *client, prosody_queue *queue,
                                                      uint64_t tag, prosody_error *error);

/* Unsubscribes and closes the client. Calling it again, or from several threads, is fine: all wait
   for the same end. Other calls then give PROSODY_ERR_CLOSED. */
PROSODY_API prosody_status prosody_client_shutdown(prosody_client *client, prosody_queue *queue,
                                                   uint64_t tag, prosody_error *error);

/* A header to send. A value may be null. */
typedef struct prosody_header {
  prosody_bytes name;
  prosody_bytes value;
} prosody_header;

/* A record to send. */
typedef struct prosody_outgoing {
  uint32_t size; /* sizeof(prosody_outgoing) */
  uint32_t headers_count;
  prosody_bytes topic;
  prosody_bytes key;     /* at most 32,768 bytes of UTF-8; empty is fine */
  prosody_bytes payload; /* JSON, sent byte for byte; null for prosody_client_excise */
  const prosody_header *headers;
} prosody_outgoing;

/* Sends a message; it is complete when the broker has acknowledged it. A payload with a text "id"
   that this client has sent to the same topic and key before is not sent again; the completion then
   has offset -1. PROSODY_ERR_INVALID, PROSODY_ERR_TOO_LARGE: nothing was sent. PROSODY_ERR_TIMEOUT:
   send_timeout is over; whether the record was written is not known. */
PROSODY_API prosody_status prosody_client_send(prosody_client *client, prosody_queue *queue,
                                               uint64_t tag, const prosody_outgoing *record,
                                               prosody_error *error);

/* Sends an excise record, a null payload: it orders the deletion of a key's data. */
PROSODY_API prosody_status prosody_client_excise(prosody_client *client, prosody_queue *queue,
                                                 uint64_t tag, const prosody_outgoing *record,
                                                 prosody_error *error);

/* Tells the state. PROSODY_ERR_CONFIG with a text when the settings do not allow to consume. */
PROSODY_API prosody_status prosody_client_state(prosody_client *client, int32_t *state,
                                                prosody_error *error);

/* Tells how many partitions the client owns; 0 unless running. */
PROSODY_API prosody_status prosody_client_partitions(prosody_client *client, uint32_t *count,
                                                     prosody_error *error);

/* Tells whether something has stopped moving for stall_threshold; 0 unless running. */
PROSODY_API prosody_status prosody_client_stalled(prosody_client *client, int32_t *stalled,
                                                  prosody_error *error);

/* Writes the client's source system. PROSODY_SHORT when it does not fit. */
PROSODY_API prosody_status prosody_client_source(prosody_client *client, void *buffer,
                                                 size_t capacity, size_t *size,
                                                 prosody_error *error);

/* Writes counters and the state of each partition as JSON; its member `library` counts the live
   handles and invocations of the process. PROSODY_SHORT when it does not fit. */
PROSODY_API prosody_status prosody_client_stats(prosody_client *client, void *buffer,
                                                size_t capacity, size_t *size,
                                                prosody_error *error);

/* Frees a client. One that is still open shuts down in the background. */
PROSODY_API void prosody_client_destroy(prosody_client *client);

/* ---- Invocations ----------------------------------------------------------------------------- */
/* How a handler ended. */
enum {
  PROSODY_RESULT_SUCCESS = 0,
  PROSODY_RESULT_TRANSIENT = 1, /* try again */
  PROSODY_RESULT_PERMANENT = 2  /* never try again */
};

typedef struct prosody_outcome {
  uint32_t size;  /* sizeof(prosody_outcome) */
  int32_t result; /* PROSODY_RESULT_... */
  uint64_t invocation;
  prosody_bytes response;   /* JSON for a waiting sender, or null */
  prosody_bytes error_text; /* what went wrong, or null */
} prosody_outcome;

/* Ends invocations, each once. All are tried; the status is the first error: PROSODY_ERR_SETTLED
   for one that is over, PROSODY_ERR_REVOKED for one whose partition has gone, PROSODY_ERR_HANDLE
   for no invocation at all. When an argument is malformed, none is ended. */
PROSODY_API prosody_status prosody_complete(const prosody_outcome *outcomes, size_t count,
                                            prosody_error *error);

/* PROSODY_OK: go on. PROSODY_ERR_CANCELLED: stop. PROSODY_ERR_SETTLED: it is over.
   PROSODY_ERR_HANDLE: no invocation. */
PROSODY_API prosody_status prosody_should_cancel(uint64_t invocation);

/* ---- Topics ---------------------------------------------------------------------------------- */
typedef struct prosody_admin prosody_admin;
/* What a new topic is like. Zero and null mean the broker's own setting. */
typedef struct prosody_topic {
  uint32_t size; /* sizeof(prosody_topic) */
  int32_t partitions;
  int32_t replication;
  uint32_t reserved;
  prosody_bytes name;
  prosody_bytes cleanup_policy; /* delete, compact */
  int64_t retention_ms;         /* -1: no limit */
} prosody_topic;

/* Makes an admin client. It needs the option bootstrap_servers, or mock, and no other. */
PROSODY_API prosody_status prosody_admin_create(prosody_config *config, prosody_admin **out,
                                                prosody_error *error);

/* Creates a topic; complete when it can be used. PROSODY_ERR_EXISTS. */
PROSODY_API prosody_status prosody_admin_create_topic(prosody_admin *admin, prosody_queue *queue,
                                                      uint64_t tag, const prosody_topic *topic,
                                                      prosody_error *error);

/* Deletes a topic. One that does not exist is no error. */
PROSODY_API prosody_status prosody_admin_delete_topic(prosody_admin *admin, prosody_queue *queue,
                                                      uint64_t tag, prosody_bytes name,
                                                      prosody_error *error);

/* Frees an admin client. */
PROSODY_API void prosody_admin_destroy(prosody_admin *admin);

/* ---- Mock mode ------------------------------------------------------------------------------- */
/* Moves the clock of the clients in mock mode with these bootstrap_servers forward, for tests: timers
   and retries that become due come now, and what has lived its time is gone. From there it flows on.
   How long handlers and calls take is measured in real time. PROSODY_ERR_ARGUMENT: no client in mock
   mode was made with these servers, or more than 100 years. */
PROSODY_API prosody_status prosody_mock_advance(prosody_bytes servers, int64_t milliseconds,
                                                prosody_error *error);

/* ---- Parts ----------------------------------------------------------------------------------- */
#include "prosody/timer.h"
#include "prosody/state.h"
#include "prosody/callback.h"

#ifdef __cplusplus
}
#endif
#endif
