/* What the parts of the C half share: the consumer itself. Go sees native.h only. */
#ifndef PROSODY_CONFLUENT_INSIDE_H
#define PROSODY_CONFLUENT_INSIDE_H

#include "native.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 128 /* records taken at once */

/* The records of one assigned partition. It has a queue of its own, so that a partition
 * stops by not being polled: pausing it would throw away what was fetched. */
typedef struct {
  char *topic;
  int32_t partition;
  rd_kafka_queue_t *queue;
  atomic_int stopped;
  int paused; /* stopped for real */
} lane;

struct prosody_consumer {
  rd_kafka_t *rk;
  rd_kafka_queue_t *queue; /* callbacks, errors */
  rd_kafka_queue_t *side;  /* answers to prosody_ask */
  rd_kafka_queue_t *end;   /* while leaving */

  /* Only the polling thread, or the closing one after it. */
  rd_kafka_message_t **messages;
  prosody_item *items;
  size_t capacity, count, size;
  prosody_header *headers;
  size_t header_capacity, header_count;
  prosody_change *changes;
  size_t change_capacity, change_count;
  size_t bytes; /* of messages */
  size_t turn;  /* lane that comes first */
  int more;     /* a queue may have more */
  int stop;     /* a callback ran: this poll takes no further chunk */
  int closing;  /* answer every revocation at once */

  /* Only the polling thread changes the list; others look under mutex. */
  lane **lanes;
  size_t lane_capacity, lane_count;
  int parked; /* lanes that are stopped and not paused; under mutex */

  /* Any thread. */
  pthread_mutex_t mutex;
  pthread_cond_t ready;
  int woken;         /* look into the queues again */
  atomic_int roused; /* end the poll */
  prosody_note *first, **last;
  int notes, missed;
  atomic_int waiting; /* notes > 0 */
};

/* lane.c */
void prosody_open_lane(prosody_consumer *c, const char *topic, int32_t partition);
void prosody_close_lane(prosody_consumer *c, const char *topic, int32_t partition);

/* poll.c */
int64_t prosody_now(void); /* ms of the monotonic clock */
/* Has the poll look into the queues again. */
void prosody_look(prosody_consumer *c);
/* prosody_look, as the callback of a queue. */
void prosody_ready(rd_kafka_t *rk, void *opaque);

#endif
