/* A poll: it waits for something, and takes what is ready. */
#include "inside.h"

#include <time.h>

#define NAP 1000 /* ms between two looks at the callbacks */

int64_t prosody_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void prosody_look(prosody_consumer *c) {
  pthread_mutex_lock(&c->mutex);
  c->woken = 1;
  pthread_cond_signal(&c->ready);
  pthread_mutex_unlock(&c->mutex);
}

void prosody_wake(prosody_consumer *c) {
  atomic_store(&c->roused, 1);
  prosody_look(c);
}

/* A queue that was empty is not any more. librdkafka holds the lock of that queue, so
 * no queue may be used under mutex. */
void prosody_ready(rd_kafka_t *rk, void *opaque) {
  (void)rk;
  prosody_look(opaque);
}

static int reserve(prosody_consumer *c, size_t count) {
  if (count <= c->capacity) return 1;
  rd_kafka_message_t **messages = realloc(c->messages, count * sizeof *messages);
  if (messages) c->messages = messages;
  prosody_item *items = realloc(c->items, count * sizeof *items);
  if (items) c->items = items;
  if (!messages || !items) return 0;
  c->capacity = count;
  return 1;
}

static void headers(prosody_consumer *c, rd_kafka_message_t *m, prosody_item *item) {
  rd_kafka_headers_t *list;
  item->header = (int32_t)c->header_count;
  item->headers = 0;
  if (rd_kafka_message_headers(m, &list) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
  prosody_header one;
  while (rd_kafka_header_get_all(list, (size_t)item->headers, &one.name, &one.value, &one.size) ==
         RD_KAFKA_RESP_ERR_NO_ERROR) {
    if (c->header_count == c->header_capacity) {
      size_t capacity = c->header_capacity ? 2 * c->header_capacity : 256;
      prosody_header *more = realloc(c->headers, capacity * sizeof *more);
      if (!more) return;
      c->headers = more;
      c->header_capacity = capacity;
    }
    c->headers[c->header_count++] = one;
    item->headers++;
    c->size += one.size;
  }
}

static size_t weigh(rd_kafka_message_t *const *messages, size_t count) {
  size_t size = 0;
  for (size_t i = 0; i < count; i++) size += messages[i]->len + messages[i]->key_len;
  return size;
}

/* Takes what is ready in a queue, until there are limit records or bytes bytes. Then
 * more may be there, and the next poll does not wait. */
static void take(prosody_consumer *c, rd_kafka_queue_t *queue, size_t limit, size_t bytes) {
  while (c->count < limit && c->bytes < bytes) {
    size_t want = limit - c->count;
    if (want > CHUNK) want = CHUNK;
    ssize_t got = rd_kafka_consume_batch_queue(queue, 0, c->messages + c->count, want);
    if (got > 0) {
      c->bytes += weigh(c->messages + c->count, (size_t)got);
      c->count += (size_t)got;
    }
    /* A short chunk can also come of what was dropped. */
    if (got < (ssize_t)want && rd_kafka_queue_length(queue) == 0) return;
    if (got <= 0) break;
  }
  c->more = 1;
}

/* Callbacks first, then each lane has a share; the first one changes. */
static void sweep(prosody_consumer *c, size_t limit, size_t bytes) {
  c->more = 0;
  take(c, c->queue, limit, bytes);
  size_t lanes = c->lane_count;
  c->turn++;
  for (size_t i = 0; i < lanes && !c->stop && c->count < limit && c->bytes < bytes; i++) {
    lane *l = c->lanes[(c->turn + i) % lanes];
    if (!l->stopped)
      take(c, l->queue, c->count + (limit - c->count + lanes - i - 1) / (lanes - i),
           c->bytes + (bytes - c->bytes + lanes - i - 1) / (lanes - i));
  }
  if (c->stop || c->count >= limit || c->bytes >= bytes) c->more = 1;
}

/* Waits until a queue may have something, at most to the end. 0: that is over. */
static int rest(prosody_consumer *c, int64_t end) {
  int64_t left = end - prosody_now();
  if (left <= 0) return 0;
  int64_t until = prosody_now() + (left < NAP ? left : NAP);
  struct timespec at = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};
  pthread_mutex_lock(&c->mutex);
  while (!c->woken && pthread_cond_timedwait(&c->ready, &c->mutex, &at) == 0);
  c->woken = 0;
  pthread_mutex_unlock(&c->mutex);
  return 1;
}

int prosody_poll(prosody_consumer *c, int wait_ms, int limit, size_t bytes) {
  prosody_done(c);
  if (limit < 1 || !reserve(c, (size_t)limit)) return 0;
  c->stop = 0;
  c->bytes = 0;
  int64_t end = prosody_now() + wait_ms;
  do sweep(c, (size_t)limit, bytes);
  while (c->count == 0 && !c->stop && !atomic_exchange(&c->roused, 0) &&
         (c->more ? prosody_now() < end : rest(c, end)));
  c->size = 0;
  for (size_t i = 0; i < c->count; i++) {
    rd_kafka_message_t *m = c->messages[i];
    prosody_item *item = &c->items[i];
    rd_kafka_timestamp_type_t type;
    item->topic = m->rkt ? rd_kafka_topic_name(m->rkt) : "";
    item->partition = m->partition;
    item->offset = m->offset;
    item->err = m->err;
    item->headers = 0;
    if (m->err) {
      item->text = rd_kafka_message_errstr(m);
      continue;
    }
    item->key = m->key;
    item->key_size = m->key_len;
    item->value = m->payload;
    item->value_size = m->len;
    item->timestamp = rd_kafka_message_timestamp(m, &type);
    if (type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE) item->timestamp = -1;
    c->size += m->len + m->key_len;
    headers(c, m, item);
  }
  return (int)c->count;
}

const prosody_item *prosody_items(const prosody_consumer *c) { return c->items; }
const prosody_header *prosody_headers(const prosody_consumer *c) { return c->headers; }
size_t prosody_size(const prosody_consumer *c) { return c->size; }

void prosody_done(prosody_consumer *c) {
  for (size_t i = 0; i < c->count; i++) rd_kafka_message_destroy(c->messages[i]);
  c->count = c->header_count = 0;
}
