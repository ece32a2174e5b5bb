/* Dispatch and the decoding of records: plain C, with no Go frame below the host's callbacks. */
#include <stdlib.h>
#include <string.h>

#include "shim.h"

#define BATCH (64u * 1024)

/* What one dispatch has in hand. A callback may be left by an exception: then `cleanup` runs. */
typedef struct batch {
  char *buffer;
  size_t at, size;
} batch;

static const char *text_of(const char *from, uint32_t size, prosody_bytes *out) {
  if (size == PROSODY_NULL_SIZE) {
    out->data = NULL;
    out->size = 0;
    return from;
  }
  out->data = from;
  out->size = size;
  return from + size;
}

static void decode(const prosody_record *record, prosody_message *out) {
  const prosody_message_record *m = (const prosody_message_record *)record;
  out->invocation = m->head.token;
  out->offset = m->offset;
  out->timestamp_ms = m->timestamp_ms;
  out->partition = m->partition;
  out->retry = m->retry;
  out->flags = m->head.flags;
  out->headers_count = m->headers_count;
  const char *at = (const char *)(m + 1);
  at = text_of(at, m->topic_size, &out->topic);
  at = text_of(at, m->key_size, &out->key);
  at = text_of(at, m->payload_size, &out->payload);
  at = text_of(at, m->source_size, &out->source);
  at = text_of(at, m->trace_size, &out->trace);
  at = text_of(at, m->state_size, &out->state);
  text_of(at, m->headers_size, &out->headers);
}

static void decode_timer(const prosody_record *record, prosody_timer *out) {
  const prosody_timer_record *t = (const prosody_timer_record *)record;
  out->invocation = t->head.token;
  out->second = t->second;
  out->partition = t->partition;
  out->retry = t->retry;
  out->flags = t->head.flags;
  out->reserved = 0;
  const char *at = text_of((const char *)(t + 1), t->topic_size, &out->topic);
  at = text_of(at, t->key_size, &out->key);
  at = text_of(at, t->trace_size, &out->trace);
  text_of(at, t->state_size, &out->state);
}

prosody_status prosody_timer_decode(const prosody_record *record, prosody_timer *out) {
  if (shim_forked()) return PROSODY_ERR_FORKED;
  if (record == NULL || out == NULL || record->kind != PROSODY_RECORD_TIMER)
    return PROSODY_ERR_ARGUMENT;
  decode_timer(record, out);
  return PROSODY_OK;
}

prosody_status prosody_message_decode(const prosody_record *record, prosody_message *out) {
  if (shim_forked()) return PROSODY_ERR_FORKED;
  if (record == NULL || out == NULL) return PROSODY_ERR_ARGUMENT;
  if (record->kind != PROSODY_RECORD_MESSAGE && record->kind != PROSODY_RECORD_EXCISE)
    return PROSODY_ERR_ARGUMENT;
  decode(record, out);
  return PROSODY_OK;
}

prosody_status prosody_message_header(const prosody_message *message, uint32_t index,
                                      prosody_bytes *name, prosody_bytes *value) {
  if (shim_forked()) return PROSODY_ERR_FORKED;
  if (message == NULL || name == NULL || value == NULL || index >= message->headers_count)
    return PROSODY_ERR_ARGUMENT;
  const char *at = message->headers.data, *end = at + message->headers.size;
  for (uint32_t i = 0;; i++) {
    uint32_t sizes[2];
    if ((size_t)(end - at) < sizeof sizes) return PROSODY_ERR_ARGUMENT;
    memcpy(sizes, at, sizeof sizes); /* not aligned */
    at = text_of(at + sizeof sizes, sizes[0], name);
    at = text_of(at, sizes[1], value);
    if (i == index) return PROSODY_OK;
  }
}

prosody_status prosody_answer_decode(prosody_bytes data, size_t offset, int32_t *kind,
                                     prosody_bytes *subsystem, prosody_bytes *value, size_t *next) {
  if (shim_forked()) return PROSODY_ERR_FORKED;
  if ((data.data == NULL && data.size > 0) || kind == NULL || subsystem == NULL || value == NULL ||
      next == NULL || offset > data.size)
    return PROSODY_ERR_ARGUMENT;
  if (offset == data.size) return PROSODY_END;
  prosody_answer head;
  if (data.size - offset < sizeof head) return PROSODY_ERR_ARGUMENT;
  const char *at = (const char *)data.data + offset;
  memcpy(&head, at, sizeof head); /* perhaps not aligned */
  if (head.size > data.size - offset ||
      sizeof head + (uint64_t)head.subsystem_size + head.value_size > head.size)
    return PROSODY_ERR_ARGUMENT;
  *kind = head.kind;
  at = text_of(at + sizeof head, head.subsystem_size, subsystem);
  text_of(at, head.value_size, value);
  *next = offset + head.size;
  return PROSODY_OK;
}

static void fail(const prosody_record *record, const char *why) {
  prosody_outcome outcome = {.size = sizeof outcome,
                             .result = PROSODY_RESULT_TRANSIENT,
                             .invocation = record->token,
                             .error_text = {why, strlen(why)}};
  prosody_complete(&outcome, 1, NULL);
}

static int is_event(const prosody_record *record) {
  return record->kind == PROSODY_RECORD_MESSAGE || record->kind == PROSODY_RECORD_EXCISE ||
         record->kind == PROSODY_RECORD_TIMER;
}

static void cleanup(batch *b) {
  while (b->at < b->size) {
    const prosody_record *record = (const prosody_record *)(b->buffer + b->at);
    b->at += record->size;
    if (is_event(record)) fail(record, "an exception left the callback of an earlier record");
  }
  free(b->buffer);
}

static void call_event(const prosody_handler *handler, const prosody_record *record) {
  int message = record->kind == PROSODY_RECORD_MESSAGE;
  void (*callback)(void *, const prosody_message *) =
      message ? handler->on_message : handler->on_excise;
  if (callback == NULL) {
    fail(record, message ? "the host has no on_message" : "the host has no on_excise");
    return;
  }
  prosody_message event;
  decode(record, &event);
  callback(handler->user_data, &event);
}

static void call_timer(const prosody_handler *handler, const prosody_record *record) {
  if (handler->on_timer == NULL) {
    fail(record, "the host has no on_timer");
    return;
  }
  prosody_timer timer;
  decode_timer(record, &timer);
  handler->on_timer(handler->user_data, &timer);
}

static void call_completion(const prosody_handler *handler, const prosody_record *record) {
  const prosody_completion_record *c = (const prosody_completion_record *)record;
  prosody_completion completion = {.tag = c->head.token,
                                   .status = c->status,
                                   .category = c->category,
                                   .value = c->value,
                                   .extra = c->extra};
  const char *at = text_of((const char *)(c + 1), c->text_size, &completion.text);
  text_of(at, c->data_size, &completion.data);
  handler->on_completion(handler->user_data, &completion);
}

static void call_log(const prosody_handler *handler, const prosody_record *record) {
  const prosody_log_record *l = (const prosody_log_record *)record;
  prosody_log line = {.time_ns = l->time_ns, .level = l->level};
  const char *at = text_of((const char *)(l + 1), l->target_size, &line.target);
  at = text_of(at, l->text_size, &line.text);
  text_of(at, l->fields_size, &line.fields);
  handler->on_log(handler->user_data, &line);
}

static void call(const prosody_handler *handler, const prosody_record *record) {
  switch (record->kind) {
  case PROSODY_RECORD_MESSAGE:
  case PROSODY_RECORD_EXCISE:
    call_event(handler, record);
    break;
  case PROSODY_RECORD_TIMER:
    call_timer(handler, record);
    break;
  case PROSODY_RECORD_CANCEL:
    if (handler->on_cancel != NULL)
      handler->on_cancel(handler->user_data, record->token,
                         ((const prosody_cancel_record *)record)->reason);
    break;
  case PROSODY_RECORD_COMPLETION:
    if (handler->on_completion != NULL) call_completion(handler, record);
    break;
  case PROSODY_RECORD_LOG:
    if (handler->on_log != NULL) call_log(handler, record);
    break;
  case PROSODY_RECORD_FATAL:
    if (handler->on_fatal != NULL) {
      const prosody_fatal_record *f = (const prosody_fatal_record *)record;
      prosody_bytes text;
      text_of((const char *)(f + 1), f->text_size, &text);
      handler->on_fatal(handler->user_data, text);
    }
    break;
  }
}

prosody_status prosody_queue_dispatch(prosody_queue *queue, const prosody_handler *handler,
                                      int32_t timeout_ms, uint32_t *count, prosody_error *error) {
  if (count != NULL) *count = 0;
  if (handler != NULL && handler->size < sizeof *handler) handler = NULL;
  prosody_status status = shim_dispatchable(queue, handler, timeout_ms, error);
  if (status != PROSODY_OK) return status;

  __attribute__((cleanup(cleanup))) batch b = {malloc(BATCH), 0, 0};
  size_t capacity = BATCH, size = 0;
  uint32_t got = 0;
  for (;;) {
    if (b.buffer == NULL) return shim_fail(error, PROSODY_ERR_INTERNAL, "out of memory", 13);
    status = shim_take(queue, b.buffer, capacity, handler->limit, timeout_ms, &size, &got, error);
    if (status != PROSODY_SHORT) break;
    capacity = size;
    free(b.buffer);
    b.buffer = malloc(capacity);
  }
  if (status != PROSODY_OK) return status;
  b.size = size;
  while (b.at < b.size) {
    const prosody_record *record = (const prosody_record *)(b.buffer + b.at);
    b.at += record->size;
    if (count != NULL) ++*count;
    call(handler, record);
  }
  return PROSODY_OK;
}
