/* Part of prosody.h, which includes it: timers.
 *
 * A timer calls the handler again for the same key. It has a second, by which it is known: a key has
 * at most one timer for a second. A timer never fires before its second; one of the past fires at
 * once. It never runs at the same time as another event of its key.
 *
 * Changes belong to the handler's attempt: its other calls see them at once, they become durable with
 * its success, and a failed attempt leaves nothing. */
#ifndef PROSODY_H
#error "include prosody.h"
#endif
#ifndef PROSODY_TIMER_H
#define PROSODY_TIMER_H

/* A timer that has come due: an event, to be ended with prosody_complete. The bytes of topic, key,
   trace and state follow without gaps. */
typedef struct prosody_timer_record {
  prosody_record head;
  int64_t second; /* since the epoch */
  int32_t partition;
  uint32_t retry; /* 0 at first, 1 for the first retry */
  uint32_t topic_size;
  uint32_t key_size;
  uint32_t trace_size; /* W3C traceparent of what scheduled it */
  uint32_t state_size; /* W3C tracestate */
} prosody_timer_record;

/* A timer record, decoded. It lives as long as the callback. */
typedef struct prosody_timer {
  uint64_t invocation;
  int64_t second;
  int32_t partition;
  uint32_t retry;
  uint32_t flags;
  uint32_t reserved;
  prosody_bytes topic;
  prosody_bytes key;
  prosody_bytes trace;
  prosody_bytes state;
} prosody_timer;

/* Decodes a packed record of the kind timer; the result points into it. */
PROSODY_API prosody_status prosody_timer_decode(const prosody_record *record, prosody_timer *out);

enum {
  PROSODY_TIMER_CLEAR = 1,    /* schedule: instead of all timers of the key */
  PROSODY_TIMER_IMMEDIATE = 2 /* durable when the call ends, whatever becomes of the attempt */
};

/* Calls for the key of an invocation, until that is completed; then PROSODY_ERR_SETTLED. They are
   fine while the handler is to stop. PROSODY_ERR_REVOKED: the partition has gone. `second` is within
   0 and 2^32 - 1, else PROSODY_ERR_INVALID.

   A change is done when the call returns PROSODY_OK. With PROSODY_TIMER_IMMEDIATE it is pending, and
   the invocation does not end before it; without, `queue` and `tag` are not used. */

/* Schedules a timer; scheduling the same second again changes nothing. */
PROSODY_API prosody_status prosody_timer_schedule(uint64_t invocation, prosody_queue *queue,
                                                  uint64_t tag, int64_t second, uint32_t flags,
                                                  prosody_error *error);

/* Takes a timer back. One that does not exist is no error. */
PROSODY_API prosody_status prosody_timer_unschedule(uint64_t invocation, prosody_queue *queue,
                                                    uint64_t tag, int64_t second, uint32_t flags,
                                                    prosody_error *error);

/* Takes all timers of the key back. */
PROSODY_API prosody_status prosody_timer_clear(uint64_t invocation, prosody_queue *queue,
                                               uint64_t tag, uint32_t flags, prosody_error *error);

/* Lists the seconds of the timers, ascending, without the one that fires. *count tells how many
   there are; PROSODY_SHORT when they are more than `capacity`. It seldom has to read: then it is
   pending, and the data of the completion are the seconds, its value their number. */
PROSODY_API prosody_status prosody_timer_list(uint64_t invocation, prosody_queue *queue,
                                              uint64_t tag, int64_t *seconds, size_t capacity,
                                              size_t *count, prosody_error *error);

#endif
