/* Questions to the brokers, and their answers. */
#include "inside.h"

#include <regex.h>

rd_kafka_queue_t *prosody_commit(prosody_consumer *c, rd_kafka_topic_partition_list_t *list,
                                 int *err) {
  rd_kafka_queue_t *queue = rd_kafka_queue_new(c->rk);
  *err = rd_kafka_commit_queue(c->rk, list, queue, NULL, NULL);
  if (*err) {
    rd_kafka_queue_destroy(queue);
    return NULL;
  }
  return queue;
}

int prosody_committed(rd_kafka_queue_t *queue, int wait_ms, rd_kafka_topic_partition_list_t *list,
                      int *err) {
  rd_kafka_event_t *event = rd_kafka_queue_poll(queue, wait_ms);
  if (!event) return 0;
  int found = rd_kafka_event_type(event) == RD_KAFKA_EVENT_OFFSET_COMMIT;
  if (found) {
    *err = rd_kafka_event_error(event);
    rd_kafka_topic_partition_list_t *answer = rd_kafka_event_topic_partition_list(event);
    for (int i = 0; answer && i < answer->cnt; i++) {
      rd_kafka_topic_partition_t *one = rd_kafka_topic_partition_list_find(
          list, answer->elems[i].topic, answer->elems[i].partition);
      if (one) one->err = answer->elems[i].err;
    }
  }
  rd_kafka_event_destroy(event);
  return found;
}

int prosody_ask(prosody_consumer *c, const char **topics, size_t count) {
  rd_kafka_TopicCollection_t *names = rd_kafka_TopicCollection_of_topic_names(topics, count);
  rd_kafka_AdminOptions_t *options =
      rd_kafka_AdminOptions_new(c->rk, RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
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
  if (!event) return -1;
  int found = 0;
  const rd_kafka_DescribeTopics_result_t *result = rd_kafka_event_DescribeTopics_result(event);
  if (result && !rd_kafka_event_error(event)) {
    size_t count = 0;
    const rd_kafka_TopicDescription_t **topics =
        rd_kafka_DescribeTopics_result_topics(result, &count);
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
