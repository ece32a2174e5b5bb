/* The consumer from its start to its end, and what librdkafka reports to it. */
#include "inside.h"

#include <time.h>

#define NOTES 1024 /* lines kept between two polls */

/* Not in librdkafka's interface, but in every build of it. While a revocation is
 * unanswered, librdkafka pauses all partitions, those that stay too. This resumes
 * them. Weak: without it they just wait. */
extern rd_kafka_resp_err_t rd_kafka_toppars_pause_resume(rd_kafka_t *rk, uint8_t pause, int async,
                                                         int flag,
                                                         rd_kafka_topic_partition_list_t *list)
    __attribute__((weak));
#define LIBRARY_PAUSE 0x20
#define ASYNC 1

static void note(prosody_consumer *c, int kind, int code, const char *facility, const char *text) {
  size_t a = facility ? strlen(facility) + 2 : 0, b = strlen(text);
  pthread_mutex_lock(&c->mutex);
  if (c->notes >= NOTES && kind == PROSODY_LOG) {
    c->missed++;
    pthread_mutex_unlock(&c->mutex);
    return;
  }
  prosody_note *n = malloc(sizeof *n + a + b + 1);
  if (n) {
    n->next = NULL;
    n->kind = kind;
    n->code = code;
    n->text = (char *)(n + 1);
    if (a) {
      memcpy(n->text, facility, a - 2);
      memcpy(n->text + a - 2, ": ", 2);
    }
    memcpy(n->text + a, text, b + 1);
    *c->last = n;
    c->last = &n->next;
    c->notes++;
  }
  atomic_store(&c->waiting, 1);
  pthread_mutex_unlock(&c->mutex);
}

prosody_note *prosody_take(prosody_consumer *c, int *missed) {
  *missed = 0;
  if (!atomic_load(&c->waiting)) return NULL;
  pthread_mutex_lock(&c->mutex);
  prosody_note *first = c->first;
  *missed = c->missed;
  c->first = NULL;
  c->last = &c->first;
  c->notes = c->missed = 0;
  atomic_store(&c->waiting, 0);
  pthread_mutex_unlock(&c->mutex);
  return first;
}

static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text) {
  prosody_consumer *c = rd_kafka_opaque(rk);
  if (!c) return;
  /* A position that is gone is more than a line of a log. */
  if (level <= 4 && !strcmp(facility, "OFFSET"))
    note(c, PROSODY_ERROR, RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET, NULL, text);
  else
    note(c, PROSODY_LOG, level, facility, text);
}

static void on_error(rd_kafka_t *rk, int err, const char *reason, void *opaque) {
  prosody_consumer *c = opaque;
  if (err == RD_KAFKA_RESP_ERR__FATAL) {
    char text[512];
    err = rd_kafka_fatal_error(rk, text, sizeof text);
    note(c, PROSODY_FATAL, err, NULL, text);
  } else {
    note(c, PROSODY_ERROR, err, NULL, reason);
  }
  c->stop = 1;
}

static void change(prosody_consumer *c, int kind, const char *topic, int32_t partition) {
  if (c->change_count == c->change_capacity) {
    size_t capacity = c->change_capacity ? 2 * c->change_capacity : 64;
    prosody_change *changes = realloc(c->changes, capacity * sizeof *changes);
    if (!changes) return;
    c->changes = changes;
    c->change_capacity = capacity;
  }
  prosody_change *one = &c->changes[c->change_count++];
  one->topic = strdup(topic);
  one->partition = partition;
  one->kind = kind;
}

/* Drops what this poll has taken of partitions that have gone since. */
static void drop(prosody_consumer *c, const rd_kafka_topic_partition_list_t *list) {
  size_t kept = 0;
  for (size_t i = 0; i < c->count; i++) {
    rd_kafka_message_t *m = c->messages[i];
    if (m->rkt &&
        rd_kafka_topic_partition_list_find(list, rd_kafka_topic_name(m->rkt), m->partition))
      rd_kafka_message_destroy(m);
    else
      c->messages[kept++] = m;
  }
  c->count = kept;
}

/* Lets the partitions that are not in gone deliver while a revocation waits. */
static void flow(prosody_consumer *c, const rd_kafka_topic_partition_list_t *gone) {
  /* Looked at in 2.11; another series has to be looked at first. */
  if (!rd_kafka_toppars_pause_resume || rd_kafka_version() >> 16 != 0x020b) return;
  rd_kafka_topic_partition_list_t *all = NULL;
  if (rd_kafka_assignment(c->rk, &all) || !all) return;
  for (int i = 0; i < gone->cnt; i++)
    rd_kafka_topic_partition_list_del(all, gone->elems[i].topic, gone->elems[i].partition);
  if (all->cnt > 0) rd_kafka_toppars_pause_resume(c->rk, 0, ASYNC, LIBRARY_PAUSE, all);
  rd_kafka_topic_partition_list_destroy(all);
}

/* Reports a failed call; 0 if it did not fail. */
static int failed(prosody_consumer *c, rd_kafka_error_t *error) {
  if (!error) return 0;
  note(c, PROSODY_ERROR, rd_kafka_error_code(error), NULL, rd_kafka_error_string(error));
  rd_kafka_error_destroy(error);
  return 1;
}

static void on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t err,
                         rd_kafka_topic_partition_list_t *list, void *opaque) {
  prosody_consumer *c = opaque;
  int kind = 0;
  switch (err) {
  case RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS:
    /* A pause of an earlier assignment would hold. */
    rd_kafka_resume_partitions(rk, list);
    for (int i = 0; i < list->cnt; i++)
      prosody_open_lane(c, list->elems[i].topic, list->elems[i].partition);
    if (!failed(c, rd_kafka_incremental_assign(rk, list))) kind = PROSODY_ASSIGNED;
    break;
  case RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS:
    drop(c, list);
    for (int i = 0; i < list->cnt; i++)
      prosody_close_lane(c, list->elems[i].topic, list->elems[i].partition);
    if (c->closing || list->cnt == 0 || rd_kafka_assignment_lost(rk)) {
      if (failed(c, rd_kafka_incremental_unassign(rk, list))) rd_kafka_assign(rk, NULL);
      kind = PROSODY_LOST;
    } else {
      flow(c, list);
      kind = PROSODY_REVOKED;
    }
    break;
  default:
    note(c, PROSODY_ERROR, err, NULL, rd_kafka_err2str(err));
    rd_kafka_assign(rk, NULL);
    break;
  }
  for (int i = 0; kind && i < list->cnt; i++)
    change(c, kind, list->elems[i].topic, list->elems[i].partition);
  /* An assignment without partitions is news too: the member has joined. */
  if (kind == PROSODY_ASSIGNED && list->cnt == 0) change(c, kind, "", -1);
  c->stop = 1;
}

prosody_consumer *prosody_new(rd_kafka_conf_t *conf, char *why, size_t size) {
  prosody_consumer *c = calloc(1, sizeof *c);
  if (!c) {
    strncpy(why, "out of memory", size);
    rd_kafka_conf_destroy(conf);
    return NULL;
  }
  pthread_mutex_init(&c->mutex, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&c->ready, &monotonic);
  pthread_condattr_destroy(&monotonic);
  c->last = &c->first;
  rd_kafka_conf_set_opaque(conf, c);
  rd_kafka_conf_set_log_cb(conf, on_log);
  rd_kafka_conf_set_error_cb(conf, on_error);
  rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
  c->rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, size);
  if (!c->rk) {
    rd_kafka_conf_destroy(conf);
    prosody_free(c);
    return NULL;
  }
  rd_kafka_poll_set_consumer(c->rk);
  c->queue = rd_kafka_queue_get_consumer(c->rk);
  c->side = rd_kafka_queue_new(c->rk);
  rd_kafka_queue_cb_event_enable(c->queue, prosody_ready, c);
  return c;
}

const prosody_change *prosody_changes(const prosody_consumer *c, int *count) {
  *count = (int)c->change_count;
  return c->changes;
}

void prosody_forget(prosody_consumer *c) {
  for (size_t i = 0; i < c->change_count; i++) free(c->changes[i].topic);
  c->change_count = 0;
}

rd_kafka_t *prosody_client(prosody_consumer *c) { return c->rk; }

int prosody_unassign(prosody_consumer *c, rd_kafka_topic_partition_list_t *list, char *why,
                     size_t size) {
  rd_kafka_error_t *error = rd_kafka_incremental_unassign(c->rk, list);
  if (!error) return 0;
  int code = rd_kafka_error_code(error);
  strncpy(why, rd_kafka_error_string(error), size - 1);
  rd_kafka_error_destroy(error);
  return code;
}

int prosody_seek(prosody_consumer *c, rd_kafka_topic_partition_list_t *list) {
  return failed(c, rd_kafka_seek_partitions(c->rk, list, 0));
}

int prosody_member(prosody_consumer *c) {
  char *id = rd_kafka_memberid(c->rk);
  int member = id && *id;
  if (id) rd_kafka_mem_free(c->rk, id);
  return member;
}

int prosody_leave(prosody_consumer *c, int wait_ms) {
  prosody_done(c);
  if (!c->closing) {
    c->closing = 1;
    c->end = rd_kafka_queue_new(c->rk);
    rd_kafka_error_t *error = rd_kafka_consumer_close_queue(c->rk, c->end);
    if (error) {
      rd_kafka_error_destroy(error); /* a fatal client: nothing is left to leave */
      return 1;
    }
  }
  for (int64_t end = prosody_now() + wait_ms;
       !rd_kafka_consumer_closed(c->rk) && prosody_now() < end;) {
    rd_kafka_event_t *event = rd_kafka_queue_poll(c->end, 10);
    if (!event) continue;
    if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_REBALANCE)
      on_rebalance(c->rk, rd_kafka_event_error(event), rd_kafka_event_topic_partition_list(event),
                   c);
    rd_kafka_event_destroy(event);
  }
  return rd_kafka_consumer_closed(c->rk);
}

void prosody_stop(prosody_consumer *c) {
  while (c->lane_count > 0) prosody_close_lane(c, c->lanes[0]->topic, c->lanes[0]->partition);
  rd_kafka_queue_cb_event_enable(c->queue, NULL, NULL);
  if (c->end) rd_kafka_queue_destroy(c->end);
  rd_kafka_queue_destroy(c->side);
  rd_kafka_queue_destroy(c->queue);
  rd_kafka_destroy_flags(c->rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

void prosody_free(prosody_consumer *c) {
  int missed;
  for (prosody_note *n = prosody_take(c, &missed), *next; n; n = next) {
    next = n->next;
    free(n);
  }
  prosody_forget(c);
  free(c->changes);
  free(c->lanes);
  free(c->messages);
  free(c->items);
  free(c->headers);
  pthread_cond_destroy(&c->ready);
  pthread_mutex_destroy(&c->mutex);
  free(c);
}
