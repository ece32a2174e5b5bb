/*
 * Mock mode: what tests can see and do. Clients with the option mock and the same bootstrap_servers
 * share a broker, a store and a clock, all in memory. `servers` names them, as the option does.
 * PROSODY_ERR_ARGUMENT: no client in mock mode was made with these servers.
 */
#ifndef PROSODY_H
#error "include prosody.h"
#endif
#ifndef PROSODY_MOCK_PART_H
#define PROSODY_MOCK_PART_H

/* Moves the clock forward: timers and retries that become due come now, and what has lived its time
   is gone. From there it flows on. How long handlers and calls take is measured in real time.
   PROSODY_ERR_ARGUMENT: also more than 100 years. */
PROSODY_API prosody_status prosody_mock_advance(prosody_bytes servers, int64_t milliseconds,
                                                prosody_error *error);

/* Asynchronous: complete when nothing is left to do. Then each record of a subscribed topic is
   handled, nothing is due by the clock, and each partition has its owner. PROSODY_ERR_TIMEOUT after
   timeout_ms; the text tells what is busy. */
PROSODY_API prosody_status prosody_mock_idle(prosody_bytes servers, prosody_queue *queue,
                                             uint64_t tag, int32_t timeout_ms,
                                             prosody_error *error);

/* Writes the records of a topic in the order in which they were sent, but for the first `skip`: as
   many message and excise records with the token 0 as fit. A null key is empty here. PROSODY_END:
   there are no more. PROSODY_SHORT: not even the first one fits. */
PROSODY_API prosody_status prosody_mock_records(prosody_bytes servers, prosody_bytes topic,
                                                uint64_t skip, void *buffer, size_t capacity,
                                                size_t *size, uint32_t *count,
                                                prosody_error *error);

/* Calls that can be made to fail, as bits. A name narrows them to one key, topic or group. */
enum {
  PROSODY_MOCK_READ = 1,    /* of the store; the name is the key */
  PROSODY_MOCK_WRITE = 2,   /* to the store; the name is the key */
  PROSODY_MOCK_PRODUCE = 4, /* the name is the topic */
  PROSODY_MOCK_CONSUME = 8, /* the name is the group */
  PROSODY_MOCK_COMMIT = 16  /* of offsets; the name is the group */
};

/* Makes the next calls of some kinds fail with a transient error, so many; -1: all from now on. Null
   as name: any. `times` 0 takes back what was said of these kinds and this name. */
PROSODY_API prosody_status prosody_mock_fail(prosody_bytes servers, uint32_t calls,
                                             prosody_bytes name, int64_t times,
                                             prosody_error *error);

/* Takes all partitions away from the members of a group, which then shares them anew. `reason` is
   PROSODY_CANCEL_REVOKED: handlers may end within shutdown_timeout; or PROSODY_CANCEL_LOST: they
   count no more. PROSODY_ERR_ARGUMENT: also when no member has a partition. */
PROSODY_API prosody_status prosody_mock_rebalance(prosody_bytes servers, prosody_bytes group,
                                                  int32_t reason, prosody_error *error);

/* Frees all that is kept for the servers. PROSODY_ERR_STATE: clients with them are open. */
PROSODY_API prosody_status prosody_mock_forget(prosody_bytes servers, prosody_error *error);

/* Makes a reader of what the client's own group keeps for a topic, published or not: committed
   state, read anew each time. PROSODY_ERR_STATE: the client is not in mock mode, or has not
   subscribed. */
PROSODY_API prosody_status prosody_mock_reader(prosody_client *client, prosody_bytes topic,
                                               const prosody_collection *collection,
                                               prosody_reader **out, prosody_error *error);

#endif
