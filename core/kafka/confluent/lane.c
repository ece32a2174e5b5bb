/* Lanes: each assigned partition has one, and stops by not being polled. */
#include "inside.h"

#define PARKED 16 /* stopped lanes that keep what was fetched for them */

/* Place of a partition's lane, or lane_count. */
static size_t seek(const prosody_consumer *c, const char *topic, int32_t partition) {
  size_t i = 0;
  while (i < c->lane_count &&
         (c->lanes[i]->partition != partition || strcmp(c->lanes[i]->topic, topic)))
    i++;
  return i;
}

static void lane_free(lane *l) {
  rd_kafka_message_t *messages[CHUNK];
  rd_kafka_queue_cb_event_enable(l->queue, NULL, NULL);
  for (ssize_t got; (got = rd_kafka_consume_batch_queue(l->queue, 0, messages, CHUNK)) > 0;)
    for (ssize_t i = 0; i < got; i++) rd_kafka_message_destroy(messages[i]);
  rd_kafka_queue_destroy(l->queue);
  free(l->topic);
  free(l);
}

void prosody_close_lane(prosody_consumer *c, const char *topic, int32_t partition) {
  lane *gone = NULL;
  pthread_mutex_lock(&c->mutex);
  size_t i = seek(c, topic, partition);
  if (i < c->lane_count) {
    gone = c->lanes[i];
    c->parked -= gone->stopped && !gone->paused;
    c->lanes[i] = c->lanes[--c->lane_count];
  }
  pthread_mutex_unlock(&c->mutex);
  if (gone) lane_free(gone);
}

/* Without a lane, when memory is short, records come by the common queue. */
void prosody_open_lane(prosody_consumer *c, const char *topic, int32_t partition) {
  prosody_close_lane(c, topic, partition);
  lane *l = calloc(1, sizeof *l);
  if (!l) return;
  l->topic = strdup(topic);
  l->partition = partition;
  l->queue = rd_kafka_queue_get_partition(c->rk, topic, partition);
  pthread_mutex_lock(&c->mutex);
  if (c->lane_count == c->lane_capacity) {
    size_t capacity = c->lane_capacity ? 2 * c->lane_capacity : 16;
    lane **lanes = realloc(c->lanes, capacity * sizeof *lanes);
    if (lanes) {
      c->lanes = lanes;
      c->lane_capacity = capacity;
    }
  }
  int made = l->topic && l->queue && c->lane_count < c->lane_capacity;
  if (made) c->lanes[c->lane_count++] = l;
  pthread_mutex_unlock(&c->mutex);
  if (made) {
    rd_kafka_queue_forward(l->queue, NULL);
    rd_kafka_queue_cb_event_enable(l->queue, prosody_ready, c);
    return;
  }
  if (l->queue) rd_kafka_queue_destroy(l->queue);
  free(l->topic);
  free(l);
}

int prosody_flow(prosody_consumer *c, const rd_kafka_topic_partition_list_t *list, int stop) {
  rd_kafka_topic_partition_list_t *others = rd_kafka_topic_partition_list_new(list->cnt);
  pthread_mutex_lock(&c->mutex);
  for (int i = 0; i < list->cnt; i++) {
    const rd_kafka_topic_partition_t *one = &list->elems[i];
    size_t at = seek(c, one->topic, one->partition);
    lane *l = at < c->lane_count ? c->lanes[at] : NULL;
    int pause = 1;
    if (l && l->stopped == stop) continue;
    if (l && stop) {
      l->paused = pause = c->parked >= PARKED;
      c->parked += !pause;
    } else if (l) {
      pause = l->paused;
      c->parked -= !pause;
      l->paused = 0;
    }
    if (l) l->stopped = stop;
    if (pause) rd_kafka_topic_partition_list_add(others, one->topic, one->partition);
  }
  pthread_mutex_unlock(&c->mutex);
  int code = 0;
  if (others->cnt > 0)
    code =
        stop ? rd_kafka_pause_partitions(c->rk, others) : rd_kafka_resume_partitions(c->rk, others);
  rd_kafka_topic_partition_list_destroy(others);
  if (!stop) prosody_look(c);
  return code;
}
