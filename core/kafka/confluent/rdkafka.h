/* The part of librdkafka 2.11's interface that this package uses, for builds that
 * link confluent-kafka-go's own archive: cgo cannot see headers of another module.
 * Builds with -tags dynamic use the real header; a test compares the two. */
#ifndef PROSODY_CONFLUENT_RDKAFKA_H
#define PROSODY_CONFLUENT_RDKAFKA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifndef RD_KAFKA_VERSION /* the test includes both headers */

typedef int rd_kafka_event_type_t;
typedef int rd_kafka_resp_err_t;
typedef enum { RD_KAFKA_PRODUCER, RD_KAFKA_CONSUMER } rd_kafka_type_t;
typedef enum {
  RD_KAFKA_CONF_UNKNOWN = -2,
  RD_KAFKA_CONF_INVALID,
  RD_KAFKA_CONF_OK
} rd_kafka_conf_res_t;
typedef enum { RD_KAFKA_TIMESTAMP_NOT_AVAILABLE } rd_kafka_timestamp_type_t;
typedef enum { RD_KAFKA_ADMIN_OP_DESCRIBETOPICS = 19 } rd_kafka_admin_op_t;

enum {
  RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS = -174,
  RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS = -175,
  RD_KAFKA_RESP_ERR__FATAL = -150,
  RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET = -140,
  RD_KAFKA_RESP_ERR_NO_ERROR = 0
};

#define RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE 0x8
#define RD_KAFKA_EVENT_REBALANCE 0x10
#define RD_KAFKA_EVENT_OFFSET_COMMIT 0x20
#define RD_KAFKA_OFFSET_BEGINNING (-2)
#define RD_KAFKA_OFFSET_INVALID (-1001)

typedef struct rd_kafka_AdminOptions_s rd_kafka_AdminOptions_t;
typedef struct rd_kafka_DescribeTopics_result_s rd_kafka_DescribeTopics_result_t;
typedef struct rd_kafka_TopicCollection_s rd_kafka_TopicCollection_t;
typedef struct rd_kafka_TopicDescription_s rd_kafka_TopicDescription_t;
typedef struct rd_kafka_TopicPartitionInfo_s rd_kafka_TopicPartitionInfo_t;
typedef struct rd_kafka_Uuid_s rd_kafka_Uuid_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct rd_kafka_op_s rd_kafka_event_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;

typedef struct rd_kafka_message_s {
  rd_kafka_resp_err_t err;
  rd_kafka_topic_t *rkt;
  int32_t partition;
  void *payload;
  size_t len;
  void *key;
  size_t key_len;
  int64_t offset;
  void *_private;
} rd_kafka_message_t;

typedef struct rd_kafka_topic_partition_s {
  char *topic;
  int32_t partition;
  int64_t offset;
  void *metadata;
  size_t metadata_size;
  void *opaque;
  rd_kafka_resp_err_t err;
  void *_private;
} rd_kafka_topic_partition_t;

typedef struct rd_kafka_topic_partition_list_s {
  int cnt;
  int size;
  rd_kafka_topic_partition_t *elems;
} rd_kafka_topic_partition_list_t;

#endif

void rd_kafka_AdminOptions_destroy(rd_kafka_AdminOptions_t *options);
rd_kafka_AdminOptions_t *rd_kafka_AdminOptions_new(rd_kafka_t *rk, rd_kafka_admin_op_t for_api);
rd_kafka_resp_err_t rd_kafka_AdminOptions_set_request_timeout(rd_kafka_AdminOptions_t *options,
                                                              int timeout_ms, char *errstr,
                                                              size_t errstr_size);
void rd_kafka_DescribeTopics(rd_kafka_t *rk, const rd_kafka_TopicCollection_t *topics,
                             const rd_kafka_AdminOptions_t *options, rd_kafka_queue_t *rkqu);
const rd_kafka_TopicDescription_t **
rd_kafka_DescribeTopics_result_topics(const rd_kafka_DescribeTopics_result_t *result, size_t *cntp);
void rd_kafka_TopicCollection_destroy(rd_kafka_TopicCollection_t *topics);
rd_kafka_TopicCollection_t *rd_kafka_TopicCollection_of_topic_names(const char **topics,
                                                                    size_t topics_cnt);
const rd_kafka_error_t *
rd_kafka_TopicDescription_error(const rd_kafka_TopicDescription_t *topicdesc);
const char *rd_kafka_TopicDescription_name(const rd_kafka_TopicDescription_t *topicdesc);
const rd_kafka_TopicPartitionInfo_t **
rd_kafka_TopicDescription_partitions(const rd_kafka_TopicDescription_t *topicdesc, size_t *cntp);
const rd_kafka_Uuid_t *
rd_kafka_TopicDescription_topic_id(const rd_kafka_TopicDescription_t *topicdesc);
int64_t rd_kafka_Uuid_least_significant_bits(const rd_kafka_Uuid_t *uuid);
int64_t rd_kafka_Uuid_most_significant_bits(const rd_kafka_Uuid_t *uuid);
rd_kafka_resp_err_t rd_kafka_assign(rd_kafka_t *rk,
                                    const rd_kafka_topic_partition_list_t *partitions);
rd_kafka_resp_err_t rd_kafka_assignment(rd_kafka_t *rk,
                                        rd_kafka_topic_partition_list_t **partitions);
int rd_kafka_assignment_lost(rd_kafka_t *rk);
rd_kafka_resp_err_t
rd_kafka_commit_queue(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *offsets,
                      rd_kafka_queue_t *rkqu,
                      void (*cb)(rd_kafka_t *rk, rd_kafka_resp_err_t err,
                                 rd_kafka_topic_partition_list_t *offsets, void *commit_opaque),
                      void *commit_opaque);
void rd_kafka_conf_destroy(rd_kafka_conf_t *conf);
rd_kafka_conf_t *rd_kafka_conf_new(void);
rd_kafka_conf_res_t rd_kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value,
                                      char *errstr, size_t errstr_size);
void rd_kafka_conf_set_error_cb(rd_kafka_conf_t *conf,
                                void (*error_cb)(rd_kafka_t *rk, int err, const char *reason,
                                                 void *opaque));
void rd_kafka_conf_set_log_cb(rd_kafka_conf_t *conf,
                              void (*log_cb)(const rd_kafka_t *rk, int level, const char *fac,
                                             const char *buf));
void rd_kafka_conf_set_opaque(rd_kafka_conf_t *conf, void *opaque);
void rd_kafka_conf_set_rebalance_cb(
    rd_kafka_conf_t *conf,
    void (*rebalance_cb)(rd_kafka_t *rk, rd_kafka_resp_err_t err,
                         rd_kafka_topic_partition_list_t *partitions, void *opaque));
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *rkqu, int timeout_ms,
                                     rd_kafka_message_t **rkmessages, size_t rkmessages_size);
rd_kafka_error_t *rd_kafka_consumer_close_queue(rd_kafka_t *rk, rd_kafka_queue_t *rkqu);
int rd_kafka_consumer_closed(rd_kafka_t *rk);
void rd_kafka_destroy_flags(rd_kafka_t *rk, int flags);
const char *rd_kafka_err2str(rd_kafka_resp_err_t err);
rd_kafka_resp_err_t rd_kafka_error_code(const rd_kafka_error_t *error);
void rd_kafka_error_destroy(rd_kafka_error_t *error);
const char *rd_kafka_error_string(const rd_kafka_error_t *error);
const rd_kafka_DescribeTopics_result_t *
rd_kafka_event_DescribeTopics_result(rd_kafka_event_t *rkev);
void rd_kafka_event_destroy(rd_kafka_event_t *rkev);
rd_kafka_resp_err_t rd_kafka_event_error(rd_kafka_event_t *rkev);
rd_kafka_topic_partition_list_t *rd_kafka_event_topic_partition_list(rd_kafka_event_t *rkev);
rd_kafka_event_type_t rd_kafka_event_type(const rd_kafka_event_t *rkev);
rd_kafka_resp_err_t rd_kafka_fatal_error(rd_kafka_t *rk, char *errstr, size_t errstr_size);
rd_kafka_resp_err_t rd_kafka_get_watermark_offsets(rd_kafka_t *rk, const char *topic,
                                                   int32_t partition, int64_t *low, int64_t *high);
rd_kafka_resp_err_t rd_kafka_header_get_all(const rd_kafka_headers_t *hdrs, size_t idx,
                                            const char **namep, const void **valuep, size_t *sizep);
rd_kafka_error_t *rd_kafka_incremental_assign(rd_kafka_t *rk,
                                              const rd_kafka_topic_partition_list_t *partitions);
rd_kafka_error_t *rd_kafka_incremental_unassign(rd_kafka_t *rk,
                                                const rd_kafka_topic_partition_list_t *partitions);
void rd_kafka_mem_free(rd_kafka_t *rk, void *ptr);
char *rd_kafka_memberid(const rd_kafka_t *rk);
void rd_kafka_message_destroy(rd_kafka_message_t *rkmessage);
const char *rd_kafka_message_errstr(const rd_kafka_message_t *rkmessage);
rd_kafka_resp_err_t rd_kafka_message_headers(const rd_kafka_message_t *rkmessage,
                                             rd_kafka_headers_t **hdrsp);
int64_t rd_kafka_message_timestamp(const rd_kafka_message_t *rkmessage,
                                   rd_kafka_timestamp_type_t *tstype);
rd_kafka_t *rd_kafka_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, char *errstr,
                         size_t errstr_size);
void *rd_kafka_opaque(const rd_kafka_t *rk);
rd_kafka_resp_err_t rd_kafka_pause_partitions(rd_kafka_t *rk,
                                              rd_kafka_topic_partition_list_t *partitions);
rd_kafka_resp_err_t rd_kafka_poll_set_consumer(rd_kafka_t *rk);
void rd_kafka_queue_cb_event_enable(rd_kafka_queue_t *rkqu,
                                    void (*event_cb)(rd_kafka_t *rk, void *opaque), void *opaque);
void rd_kafka_queue_destroy(rd_kafka_queue_t *rkqu);
void rd_kafka_queue_forward(rd_kafka_queue_t *src, rd_kafka_queue_t *dst);
rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *rk);
rd_kafka_queue_t *rd_kafka_queue_get_partition(rd_kafka_t *rk, const char *topic,
                                               int32_t partition);
size_t rd_kafka_queue_length(rd_kafka_queue_t *rkqu);
rd_kafka_queue_t *rd_kafka_queue_new(rd_kafka_t *rk);
rd_kafka_event_t *rd_kafka_queue_poll(rd_kafka_queue_t *rkqu, int timeout_ms);
rd_kafka_resp_err_t rd_kafka_resume_partitions(rd_kafka_t *rk,
                                               rd_kafka_topic_partition_list_t *partitions);
rd_kafka_error_t *rd_kafka_seek_partitions(rd_kafka_t *rk,
                                           rd_kafka_topic_partition_list_t *partitions,
                                           int timeout_ms);
rd_kafka_resp_err_t rd_kafka_subscribe(rd_kafka_t *rk,
                                       const rd_kafka_topic_partition_list_t *topics);
const char *rd_kafka_topic_name(const rd_kafka_topic_t *rkt);
rd_kafka_topic_partition_t *
rd_kafka_topic_partition_list_add(rd_kafka_topic_partition_list_t *rktparlist, const char *topic,
                                  int32_t partition);
int rd_kafka_topic_partition_list_del(rd_kafka_topic_partition_list_t *rktparlist,
                                      const char *topic, int32_t partition);
void rd_kafka_topic_partition_list_destroy(rd_kafka_topic_partition_list_t *rkparlist);
rd_kafka_topic_partition_t *
rd_kafka_topic_partition_list_find(const rd_kafka_topic_partition_list_t *rktparlist,
                                   const char *topic, int32_t partition);
rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int size);
int rd_kafka_version(void);

#endif
