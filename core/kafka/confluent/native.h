/* The consumer's C half: batches, rebalances, commits and logs over librdkafka.
 *
 * No callback enters Go. What librdkafka reports is kept here until the next
 * prosody_take or prosody_poll of the one polling goroutine. */
#ifndef PROSODY_CONFLUENT_NATIVE_H
#define PROSODY_CONFLUENT_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef PROSODY_DYNAMIC
#include <librdkafka/rdkafka.h>
#else
#include "rdkafka.h"
#endif

/* One record or, with err set, one error of a partition. Pointers live until the
 * next prosody_poll or prosody_free. */
typedef struct {
  const char *topic;
  const void *key, *value; /* NULL is a null key or value */
  const char *text;        /* of err */
  size_t key_size, value_size;
  int64_t offset, timestamp;
  int32_t partition;
  int32_t err;
  int32_t header, headers; /* place in headers, count */
} prosody_item;

typedef struct {
  const char *name;
  const void *value; /* NULL is a null value */
  size_t size;
} prosody_header;

enum { PROSODY_ASSIGNED = 1, PROSODY_REVOKED, PROSODY_LOST };

typedef struct {
  char *topic;
  int32_t partition;
  int32_t kind;
} prosody_change;

enum { PROSODY_LOG = 1, PROSODY_ERROR, PROSODY_FATAL };

/* A line of the log or an error; a list. */
typedef struct prosody_note {
  struct prosody_note *next;
  int kind, code; /* code: level of a line, or error code */
  char *text;     /* behind the note */
} prosody_note;

typedef struct prosody_consumer prosody_consumer;

/* Takes conf over. NULL and text in why on failure. */
prosody_consumer *prosody_new(rd_kafka_conf_t *conf, char *why, size_t size);

/* Waits at most wait_ms for something, then takes what is ready: at most limit
 * records and about bytes bytes. The arrays belong to the consumer. */
int prosody_poll(prosody_consumer *c, int wait_ms, int limit, size_t bytes);
const prosody_item *prosody_items(const prosody_consumer *c);
const prosody_header *prosody_headers(const prosody_consumer *c);
size_t prosody_size(const prosody_consumer *c);
/* Destroys the records of the last poll. */
void prosody_done(prosody_consumer *c);
const prosody_change *prosody_changes(const prosody_consumer *c, int *count);
void prosody_forget(prosody_consumer *c);
prosody_note *prosody_take(prosody_consumer *c, int *missed);
/* Ends a poll that waits. Safe from any thread. */
void prosody_wake(prosody_consumer *c);

rd_kafka_t *prosody_client(prosody_consumer *c);
/* Stops the delivery of partitions, or lets it go on. What was fetched for them stays,
 * up to some partitions. Safe from any thread. */
int prosody_flow(prosody_consumer *c, const rd_kafka_topic_partition_list_t *list, int stop);
/* Answers a revocation. */
int prosody_unassign(prosody_consumer *c, rd_kafka_topic_partition_list_t *list, char *why,
                     size_t size);
/* Goes on at the given offsets. */
int prosody_seek(prosody_consumer *c, rd_kafka_topic_partition_list_t *list);
/* 1 if the client is a member of its group. */
int prosody_member(prosody_consumer *c);

/* Commits: start, then wait in slices until the answer is there (1) or not (0). */
rd_kafka_queue_t *prosody_commit(prosody_consumer *c, rd_kafka_topic_partition_list_t *list,
                                 int *err);
int prosody_committed(rd_kafka_queue_t *queue, int wait_ms, rd_kafka_topic_partition_list_t *list,
                      int *err);

/* Identities of topics: ask, then look for the answer. */
int prosody_ask(prosody_consumer *c, const char **topics, size_t count);
typedef struct {
  char *topic;
  int64_t high, low;
  int32_t err;
  int32_t partitions;
} prosody_identity;
/* Count of identities (caller frees names and array), or -1 while none came. */
int prosody_answer(prosody_consumer *c, prosody_identity **identities);

/* Leaves the group, at most within wait_ms; 1 if that is done. Can be called again. */
int prosody_leave(prosody_consumer *c, int wait_ms);
/* Stops librdkafka's threads; notes can be taken until prosody_free. */
void prosody_stop(prosody_consumer *c);
void prosody_free(prosody_consumer *c);

/* Text of a POSIX regular expression's fault, or 0: librdkafka uses the same. */
int prosody_regex(const char *pattern, char *why, size_t size);

#endif
