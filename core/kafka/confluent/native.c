#include "native.h"

#include <pthread.h>
#include <regex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHUNK 128    /* records taken at once */
#define NOTES 1024   /* lines kept between two polls */
#define PARKED 16    /* stopped lanes that keep what was fetched for them */
#define NAP 1000     /* ms between two looks at the callbacks */

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
	int stop;    /* a callback ran: this poll takes no further chunk */
	int closing; /* answer every revocation at once */

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

/* Not in librdkafka's interface, but in every build of it. While a revocation is
 * unanswered, librdkafka pauses all partitions, those that stay too. This resumes
 * them. Weak: without it they just wait. */
extern rd_kafka_resp_err_t rd_kafka_toppars_pause_resume(rd_kafka_t *rk, uint8_t pause, int async, int flag,
    rd_kafka_topic_partition_list_t *list) __attribute__((weak));
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
	if (!atomic_load(&c->waiting))
		return NULL;
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
	if (!c)
		return;
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
		if (!changes)
			return;
		c->changes = changes;
		c->change_capacity = capacity;
	}
	prosody_change *one = &c->changes[c->change_count++];
	one->topic = strdup(topic);
	one->partition = partition;
	one->kind = kind;
}

static void wake(prosody_consumer *c) {
	pthread_mutex_lock(&c->mutex);
	c->woken = 1;
	pthread_cond_signal(&c->ready);
	pthread_mutex_unlock(&c->mutex);
}

/* A queue that was empty is not any more. librdkafka holds the lock of that queue, so
 * no queue may be used under mutex. */
static void on_ready(rd_kafka_t *rk, void *opaque) {
	(void)rk;
	wake(opaque);
}

/* Place of a partition's lane, or lane_count. */
static size_t seek(const prosody_consumer *c, const char *topic, int32_t partition) {
	size_t i = 0;
	while (i < c->lane_count && (c->lanes[i]->partition != partition || strcmp(c->lanes[i]->topic, topic)))
		i++;
	return i;
}

static void lane_free(lane *l) {
	rd_kafka_message_t *messages[CHUNK];
	rd_kafka_queue_cb_event_enable(l->queue, NULL, NULL);
	for (ssize_t got; (got = rd_kafka_consume_batch_queue(l->queue, 0, messages, CHUNK)) > 0;)
		for (ssize_t i = 0; i < got; i++)
			rd_kafka_message_destroy(messages[i]);
	rd_kafka_queue_destroy(l->queue);
	free(l->topic);
	free(l);
}

static void close_lane(prosody_consumer *c, const char *topic, int32_t partition) {
	lane *gone = NULL;
	pthread_mutex_lock(&c->mutex);
	size_t i = seek(c, topic, partition);
	if (i < c->lane_count) {
		gone = c->lanes[i];
		c->parked -= gone->stopped && !gone->paused;
		c->lanes[i] = c->lanes[--c->lane_count];
	}
	pthread_mutex_unlock(&c->mutex);
	if (gone)
		lane_free(gone);
}

/* Without a lane, when memory is short, records come by the common queue. */
static void open_lane(prosody_consumer *c, const char *topic, int32_t partition) {
	close_lane(c, topic, partition);
	lane *l = calloc(1, sizeof *l);
	if (!l)
		return;
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
	if (made)
		c->lanes[c->lane_count++] = l;
	pthread_mutex_unlock(&c->mutex);
	if (made) {
		rd_kafka_queue_forward(l->queue, NULL);
		rd_kafka_queue_cb_event_enable(l->queue, on_ready, c);
		return;
	}
	if (l->queue)
		rd_kafka_queue_destroy(l->queue);
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
		if (l && l->stopped == stop)
			continue;
		if (l && stop) {
			l->paused = pause = c->parked >= PARKED;
			c->parked += !pause;
		} else if (l) {
			pause = l->paused;
			c->parked -= !pause;
			l->paused = 0;
		}
		if (l)
			l->stopped = stop;
		if (pause)
			rd_kafka_topic_partition_list_add(others, one->topic, one->partition);
	}
	pthread_mutex_unlock(&c->mutex);
	int code = 0;
	if (others->cnt > 0)
		code = stop ? rd_kafka_pause_partitions(c->rk, others) : rd_kafka_resume_partitions(c->rk, others);
	rd_kafka_topic_partition_list_destroy(others);
	if (!stop)
		wake(c);
	return code;
}

/* Drops what this poll has taken of partitions that have gone since. */
static void drop(prosody_consumer *c, const rd_kafka_topic_partition_list_t *list) {
	size_t kept = 0;
	for (size_t i = 0; i < c->count; i++) {
		rd_kafka_message_t *m = c->messages[i];
		if (m->rkt && rd_kafka_topic_partition_list_find(list, rd_kafka_topic_name(m->rkt), m->partition))
			rd_kafka_message_destroy(m);
		else
			c->messages[kept++] = m;
	}
	c->count = kept;
}

/* Lets the partitions that are not in gone deliver while a revocation waits. */
static void flow(prosody_consumer *c, const rd_kafka_topic_partition_list_t *gone) {
	/* Looked at in 2.11; another series has to be looked at first. */
	if (!rd_kafka_toppars_pause_resume || rd_kafka_version() >> 16 != 0x020b)
		return;
	rd_kafka_topic_partition_list_t *all = NULL;
	if (rd_kafka_assignment(c->rk, &all) || !all)
		return;
	for (int i = 0; i < gone->cnt; i++)
		rd_kafka_topic_partition_list_del(all, gone->elems[i].topic, gone->elems[i].partition);
	if (all->cnt > 0)
		rd_kafka_toppars_pause_resume(c->rk, 0, ASYNC, LIBRARY_PAUSE, all);
	rd_kafka_topic_partition_list_destroy(all);
}

/* Reports a failed call; 0 if it did not fail. */
static int failed(prosody_consumer *c, rd_kafka_error_t *error) {
	if (!error)
		return 0;
	note(c, PROSODY_ERROR, rd_kafka_error_code(error), NULL, rd_kafka_error_string(error));
	rd_kafka_error_destroy(error);
	return 1;
}

static void on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t err, rd_kafka_topic_partition_list_t *list, void *opaque) {
	prosody_consumer *c = opaque;
	int kind = 0;
	switch (err) {
	case RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS:
		/* A pause of an earlier assignment would hold. */
		rd_kafka_resume_partitions(rk, list);
		for (int i = 0; i < list->cnt; i++)
			open_lane(c, list->elems[i].topic, list->elems[i].partition);
		if (!failed(c, rd_kafka_incremental_assign(rk, list)))
			kind = PROSODY_ASSIGNED;
		break;
	case RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS:
		drop(c, list);
		for (int i = 0; i < list->cnt; i++)
			close_lane(c, list->elems[i].topic, list->elems[i].partition);
		if (c->closing || list->cnt == 0 || rd_kafka_assignment_lost(rk)) {
			if (failed(c, rd_kafka_incremental_unassign(rk, list)))
				rd_kafka_assign(rk, NULL);
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
	if (kind == PROSODY_ASSIGNED && list->cnt == 0)
		change(c, kind, "", -1);
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
	rd_kafka_queue_cb_event_enable(c->queue, on_ready, c);
	return c;
}

static int reserve(prosody_consumer *c, size_t count) {
	if (count <= c->capacity)
		return 1;
	rd_kafka_message_t **messages = realloc(c->messages, count * sizeof *messages);
	if (messages)
		c->messages = messages;
	prosody_item *items = realloc(c->items, count * sizeof *items);
	if (items)
		c->items = items;
	if (!messages || !items)
		return 0;
	c->capacity = count;
	return 1;
}

static void headers(prosody_consumer *c, rd_kafka_message_t *m, prosody_item *item) {
	rd_kafka_headers_t *list;
	item->header = (int32_t)c->header_count;
	item->headers = 0;
	if (rd_kafka_message_headers(m, &list) != RD_KAFKA_RESP_ERR_NO_ERROR)
		return;
	prosody_header one;
	while (rd_kafka_header_get_all(list, (size_t)item->headers, &one.name, &one.value, &one.size) ==
	    RD_KAFKA_RESP_ERR_NO_ERROR) {
		if (c->header_count == c->header_capacity) {
			size_t capacity = c->header_capacity ? 2 * c->header_capacity : 256;
			prosody_header *more = realloc(c->headers, capacity * sizeof *more);
			if (!more)
				return;
			c->headers = more;
			c->header_capacity = capacity;
		}
		c->headers[c->header_count++] = one;
		item->headers++;
		c->size += one.size;
	}
}

static int64_t now_ms(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static size_t weigh(rd_kafka_message_t *const *messages, size_t count) {
	size_t size = 0;
	for (size_t i = 0; i < count; i++)
		size += messages[i]->len + messages[i]->key_len;
	return size;
}

/* Takes what is ready in a queue, until there are limit records or bytes bytes. Then
 * more may be there, and the next poll does not wait. */
static void take(prosody_consumer *c, rd_kafka_queue_t *queue, size_t limit, size_t bytes) {
	while (c->count < limit && c->bytes < bytes) {
		size_t want = limit - c->count;
		if (want > CHUNK)
			want = CHUNK;
		ssize_t got = rd_kafka_consume_batch_queue(queue, 0, c->messages + c->count, want);
		if (got > 0) {
			c->bytes += weigh(c->messages + c->count, (size_t)got);
			c->count += (size_t)got;
		}
		/* A short chunk can also come of what was dropped. */
		if (got < (ssize_t)want && rd_kafka_queue_length(queue) == 0)
			return;
		if (got <= 0)
			break;
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
	if (c->stop || c->count >= limit || c->bytes >= bytes)
		c->more = 1;
}

/* Waits until a queue may have something, at most to the end. 0: that is over. */
static int rest(prosody_consumer *c, int64_t end) {
	int64_t left = end - now_ms();
	if (left <= 0)
		return 0;
	int64_t until = now_ms() + (left < NAP ? left : NAP);
	struct timespec at = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};
	pthread_mutex_lock(&c->mutex);
	while (!c->woken && pthread_cond_timedwait(&c->ready, &c->mutex, &at) == 0)
		;
	c->woken = 0;
	pthread_mutex_unlock(&c->mutex);
	return 1;
}

int prosody_poll(prosody_consumer *c, int wait_ms, int limit, size_t bytes) {
	prosody_done(c);
	if (limit < 1 || !reserve(c, (size_t)limit))
		return 0;
	c->stop = 0;
	c->bytes = 0;
	int64_t end = now_ms() + wait_ms;
	do
		sweep(c, (size_t)limit, bytes);
	while (c->count == 0 && !c->stop && !atomic_exchange(&c->roused, 0) && (c->more ? now_ms() < end : rest(c, end)));
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
		if (type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE)
			item->timestamp = -1;
		c->size += m->len + m->key_len;
		headers(c, m, item);
	}
	return (int)c->count;
}

const prosody_item *prosody_items(const prosody_consumer *c) { return c->items; }
const prosody_header *prosody_headers(const prosody_consumer *c) { return c->headers; }
size_t prosody_size(const prosody_consumer *c) { return c->size; }

void prosody_done(prosody_consumer *c) {
	for (size_t i = 0; i < c->count; i++)
		rd_kafka_message_destroy(c->messages[i]);
	c->count = c->header_count = 0;
}

const prosody_change *prosody_changes(const prosody_consumer *c, int *count) {
	*count = (int)c->change_count;
	return c->changes;
}

void prosody_forget(prosody_consumer *c) {
	for (size_t i = 0; i < c->change_count; i++)
		free(c->changes[i].topic);
	c->change_count = 0;
}

void prosody_wake(prosody_consumer *c) {
	atomic_store(&c->roused, 1);
	wake(c);
}

rd_kafka_t *prosody_client(prosody_consumer *c) { return c->rk; }

int prosody_unassign(prosody_consumer *c, rd_kafka_topic_partition_list_t *list, char *why, size_t size) {
	rd_kafka_error_t *error = rd_kafka_incremental_unassign(c->rk, list);
	if (!error)
		return 0;
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
	if (id)
		rd_kafka_mem_free(c->rk, id);
	return member;
}

rd_kafka_queue_t *prosody_commit(prosody_consumer *c, rd_kafka_topic_partition_list_t *list, int *err) {
	rd_kafka_queue_t *queue = rd_kafka_queue_new(c->rk);
	*err = rd_kafka_commit_queue(c->rk, list, queue, NULL, NULL);
	if (*err) {
		rd_kafka_queue_destroy(queue);
		return NULL;
	}
	return queue;
}

int prosody_committed(rd_kafka_queue_t *queue, int wait_ms, rd_kafka_topic_partition_list_t *list, int *err) {
	rd_kafka_event_t *event = rd_kafka_queue_poll(queue, wait_ms);
	if (!event)
		return 0;
	int found = rd_kafka_event_type(event) == RD_KAFKA_EVENT_OFFSET_COMMIT;
	if (found) {
		*err = rd_kafka_event_error(event);
		rd_kafka_topic_partition_list_t *answer = rd_kafka_event_topic_partition_list(event);
		for (int i = 0; answer && i < answer->cnt; i++) {
			rd_kafka_topic_partition_t *one = rd_kafka_topic_partition_list_find(
			    list, answer->elems[i].topic, answer->elems[i].partition);
			if (one)
				one->err = answer->elems[i].err;
		}
	}
	rd_kafka_event_destroy(event);
	return found;
}

int prosody_ask(prosody_consumer *c, const char **topics, size_t count) {
	rd_kafka_TopicCollection_t *names = rd_kafka_TopicCollection_of_topic_names(topics, count);
	rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(c->rk, RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
	char why[128];
	rd_kafka_AdminOptions_set_request_timeout(options, 5000, why, sizeof why);
	rd_kafka_DescribeTopics(c->rk, names, options, c->side);
	rd_kafka_AdminOptions_destroy(options);
	rd_kafka_TopicCollection_destroy(names);
	return 0;
}

int prosody_answer(prosody_consumer *c, prosody_identity **identities) {
	*identities = NULL;
	rd_kafka_event_t *event = rd_kafka_queue_poll(c->side, 0);
	if (!event)
		return -1;
	int found = 0;
	const rd_kafka_DescribeTopics_result_t *result = rd_kafka_event_DescribeTopics_result(event);
	if (result && !rd_kafka_event_error(event)) {
		size_t count = 0;
		const rd_kafka_TopicDescription_t **topics = rd_kafka_DescribeTopics_result_topics(result, &count);
		*identities = calloc(count ? count : 1, sizeof **identities);
		for (size_t i = 0; *identities && i < count; i++) {
			const rd_kafka_Uuid_t *id = rd_kafka_TopicDescription_topic_id(topics[i]);
			(*identities)[found].topic = strdup(rd_kafka_TopicDescription_name(topics[i]));
			(*identities)[found].err = rd_kafka_error_code(rd_kafka_TopicDescription_error(topics[i]));
			(*identities)[found].high = id ? rd_kafka_Uuid_most_significant_bits(id) : 0;
			(*identities)[found].low = id ? rd_kafka_Uuid_least_significant_bits(id) : 0;
			size_t partitions = 0;
			rd_kafka_TopicDescription_partitions(topics[i], &partitions);
			(*identities)[found].partitions = (int32_t)partitions;
			found++;
		}
	}
	rd_kafka_event_destroy(event);
	return found;
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
	for (int64_t end = now_ms() + wait_ms; !rd_kafka_consumer_closed(c->rk) && now_ms() < end;) {
		rd_kafka_event_t *event = rd_kafka_queue_poll(c->end, 10);
		if (!event)
			continue;
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_REBALANCE)
			on_rebalance(c->rk, rd_kafka_event_error(event), rd_kafka_event_topic_partition_list(event), c);
		rd_kafka_event_destroy(event);
	}
	return rd_kafka_consumer_closed(c->rk);
}

void prosody_stop(prosody_consumer *c) {
	while (c->lane_count > 0)
		close_lane(c, c->lanes[0]->topic, c->lanes[0]->partition);
	rd_kafka_queue_cb_event_enable(c->queue, NULL, NULL);
	if (c->end)
		rd_kafka_queue_destroy(c->end);
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

int prosody_regex(const char *pattern, char *why, size_t size) {
	regex_t regex;
	int code = regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB);
	if (code == 0) {
		regfree(&regex);
		return 0;
	}
	regerror(code, &regex, why, size);
	return code;
}
