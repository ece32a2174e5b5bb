/* Part of prosody.h, which includes it: requests.
 *
 * A request is a record whose sender waits for answers. Each service that handles it under one of
 * the named subsystems answers with the response of its handler, once the event's effects are
 * durable. A subsystem is what the option `subsystem` of a service says. */
#ifndef PROSODY_H
#error "include prosody.h"
#endif
#ifndef PROSODY_REQUEST_H
#define PROSODY_REQUEST_H

/* A record to send, and who is to answer. */
typedef struct prosody_request {
  uint32_t size; /* sizeof(prosody_request) */
  uint32_t subsystems_count;
  const prosody_bytes *subsystems; /* 1 to 64 distinct names; blanks around them do not count */
  int64_t timeout_ms; /* 0 waits for nothing: each answer is a time-out, the record is sent */
  const prosody_outgoing *record; /* a payload with an "id" is sent again each time */
} prosody_request;

/* How a subsystem answered. */
enum {
  PROSODY_ANSWER_SUCCESS = 1,
  PROSODY_ANSWER_HANDLER = 2,  /* its handler failed for good */
  PROSODY_ANSWER_TIMEOUT = 3,  /* no answer came in time */
  PROSODY_ANSWER_FORMAT = 4,   /* the answer is not in JSON, but in another format */
  PROSODY_ANSWER_MALFORMED = 5 /* the answer is not JSON, although it says so */
};

/* The answer of one subsystem, aligned to 8. The name and the value follow without gaps. The value
   is the response in JSON; of a failure it is a text that tells what went wrong. */
typedef struct prosody_answer {
  uint32_t size; /* of the whole answer, a multiple of 8 */
  int32_t kind;  /* PROSODY_ANSWER_... */
  uint32_t subsystem_size;
  uint32_t value_size;
} prosody_answer;

/* Sends a message and waits for the answers. The completion comes when all are there, or when the
   time is over; its data is one prosody_answer for each subsystem, in the order of the names, its
   value their number. It fails when the request as a whole does: the record was not sent
   (prosody_client_send has the reasons), or PROSODY_ERR_CONFIG: no answer can arrive, since
   peer_bind_address cannot be listened on. PROSODY_ERR_STATE: 65,536 requests wait already. */
PROSODY_API prosody_status prosody_client_request(prosody_client *client, prosody_queue *queue,
                                                  uint64_t tag, const prosody_request *request,
                                                  prosody_error *error);

/* The same with an excise record. */
PROSODY_API prosody_status prosody_client_request_excise(prosody_client *client,
                                                         prosody_queue *queue, uint64_t tag,
                                                         const prosody_request *request,
                                                         prosody_error *error);

/* Gives up a request that has not ended: its completion comes now, with PROSODY_ERR_CANCELLED. The
   record is not taken back. PROSODY_ABSENT: no request of this queue and tag waits. */
PROSODY_API prosody_status prosody_client_abandon(prosody_client *client, prosody_queue *queue,
                                                  uint64_t tag, prosody_error *error);

/* Decodes the answer at an offset of a completion's data; the results point into it. *next is the
   offset of the one behind it. PROSODY_END behind the last. */
PROSODY_API prosody_status prosody_answer_decode(prosody_bytes data, size_t offset, int32_t *kind,
                                                 prosody_bytes *subsystem, prosody_bytes *value,
                                                 size_t *next);

#endif
