/* Part of prosody.h, which includes it: callbacks, for hosts in C. Other languages read the packed
   records themselves. */
#ifndef PROSODY_H
#error "include prosody.h"
#endif
#ifndef PROSODY_CALLBACK_H
#define PROSODY_CALLBACK_H

/* A message or excise record, decoded. It lives as long as the callback. */
typedef struct prosody_message {
  uint64_t invocation;
  int64_t offset;
  int64_t timestamp_ms;
  int32_t partition;
  uint32_t retry;
  uint32_t flags;
  uint32_t headers_count;
  prosody_bytes topic;
  prosody_bytes key;
  prosody_bytes payload;
  prosody_bytes source;
  prosody_bytes trace;
  prosody_bytes state;
  prosody_bytes headers; /* packed; read them with prosody_message_header */
} prosody_message;

/* The end of an asynchronous call, decoded. */
typedef struct prosody_completion {
  uint64_t tag;
  prosody_status status;
  int32_t category;
  int64_t value;
  int64_t extra;
  prosody_bytes text;
  prosody_bytes data;
} prosody_completion;

/* A line of the log, decoded. */
typedef struct prosody_log {
  int64_t time_ns;
  int32_t level;
  uint32_t reserved;
  prosody_bytes target;
  prosody_bytes text;
  prosody_bytes fields;
} prosody_log;

/* What prosody_queue_dispatch calls, on the thread that called it. A callback may be NULL: then a
   message, excise or timer record fails and comes again; others are dropped. It may call any
   function. */
typedef struct prosody_handler {
  uint32_t size;  /* sizeof(prosody_handler) */
  uint32_t limit; /* of records for one dispatch; 0: as many as wait */
  void *user_data;
  void (*on_message)(void *user_data, const prosody_message *message);
  void (*on_excise)(void *user_data, const prosody_message *message);
  void (*on_timer)(void *user_data, const prosody_timer *timer);
  void (*on_cancel)(void *user_data, uint64_t invocation, int32_t reason);
  void (*on_completion)(void *user_data, const prosody_completion *completion);
  void (*on_log)(void *user_data, const prosody_log *line);
  void (*on_fatal)(void *user_data, prosody_bytes text);
} prosody_handler;

/* Polls once and calls back for each record; *count, which may be NULL, tells how many. timeout_ms
   is that of prosody_queue_poll. With several threads, or handlers that take long, set a small
   limit: a record waits for those before it. A C++ exception may leave a callback: the events
   behind it fail and are delivered again, its other records are lost. Never longjmp out of one. */
PROSODY_API prosody_status prosody_queue_dispatch(prosody_queue *queue,
                                                  const prosody_handler *handler,
                                                  int32_t timeout_ms, uint32_t *count,
                                                  prosody_error *error);

/* Decodes a packed record of the kind message or excise; the result points into it. */
PROSODY_API prosody_status prosody_message_decode(const prosody_record *record,
                                                  prosody_message *out);

/* Gives the header at an index: PROSODY_ERR_ARGUMENT beyond the last. The order is that of the
   record; names may repeat; a value may be null. */
PROSODY_API prosody_status prosody_message_header(const prosody_message *message, uint32_t index,
                                                  prosody_bytes *name, prosody_bytes *value);

#endif
