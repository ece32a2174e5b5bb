/* The public functions. Each checks what can be checked without Go, then enters it. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <time.h>

#include "_cgo_export.h"
#include "check.h"

/* ---- Library and configuration -------------------------------------------------------------- */

prosody_status prosody_options(void *buffer, size_t capacity, size_t *size, prosody_error *error) {
  ENTER(error);
  WRITABLE(buffer, capacity);
  return goOptions(buffer, capacity, size, error);
}

prosody_status prosody_config_create(prosody_config **out, prosody_error *error) {
  ENTER(error);
  NEED(out != NULL, "out: NULL");
  return goConfigCreate((uintptr_t *)out, error);
}

prosody_status prosody_config_set(prosody_config *config, prosody_bytes name, prosody_bytes value,
                                  prosody_error *error) {
  ENTER(error);
  HANDLE(config);
  READABLE(name, "name");
  READABLE(value, "value");
  return goConfigSet(RAW(config), name, value, error);
}

prosody_status prosody_config_set_list(prosody_config *config, prosody_bytes name,
                                       const prosody_bytes *items, size_t count,
                                       prosody_error *error) {
  ENTER(error);
  HANDLE(config);
  READABLE(name, "name");
  NEED(items != NULL || count == 0, "items: NULL with a count");
  NEED(count <= LARGEST / sizeof *items, "count: too large");
  return goConfigSetList(RAW(config), name, (prosody_bytes *)(count ? items : NULL), count, error);
}

prosody_status prosody_config_set_none(prosody_config *config, prosody_bytes name,
                                       prosody_error *error) {
  ENTER(error);
  HANDLE(config);
  READABLE(name, "name");
  return goConfigSetNone(RAW(config), name, error);
}

prosody_status prosody_config_check(prosody_config *config, void *buffer, size_t capacity,
                                    size_t *size, prosody_error *error) {
  ENTER(error);
  HANDLE(config);
  WRITABLE(buffer, capacity);
  return goConfigCheck(RAW(config), buffer, capacity, size, error);
}

void prosody_config_destroy(prosody_config *config) {
  if (config != NULL && !shim_forked()) goConfigDestroy(RAW(config));
}

/* ---- Queue ---------------------------------------------------------------------------------- */

prosody_status prosody_queue_create(prosody_queue **out, prosody_error *error) {
  ENTER(error);
  NEED(out != NULL, "out: NULL");
  return goQueueCreate((uintptr_t *)out, error);
}

int prosody_queue_fd(prosody_queue *queue) {
  return queue == NULL || shim_forked() ? -1 : goQueueDescriptor(RAW(queue));
}

static int64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* A bell that rings so soon after the last batch is one of many. */
#define RUSH_US 1000

/* Polls for at most `limit` records. The wait is here, in C: the host's signals interrupt it. */
prosody_status shim_take(prosody_queue *queue, void *buffer, size_t capacity, uint32_t limit,
                         int32_t timeout_ms, size_t *size, uint32_t *count, prosody_error *error) {
  int64_t end = timeout_ms > 0 ? now_us() + timeout_ms * INT64_C(1000) : 0;
  int wait = timeout_ms;
  for (;;) {
    shim_gate *gate = NULL;
    prosody_status status = goQueueTake(RAW(queue), buffer, capacity, limit, size, count,
                                        wait != 0 ? &gate : NULL, error);
    if (gate == NULL) return status;
    struct pollfd bell = {.fd = gate->descriptor, .events = POLLIN};
    int64_t asked = now_us();
    int rang = poll(&bell, 1, wait);
    int interrupted = rang < 0 && errno == EINTR;
    shim_gate_leave(gate);
    if (interrupted) return PROSODY_OK;
    int64_t now = now_us();
    /* Who rings is in the middle of a batch: one wake serves all of it. */
    if (rang > 0 && now - asked < RUSH_US) sched_yield();
    if (timeout_ms > 0) wait = now < end ? (int)((end - now + 999) / 1000) : 0;
  }
}

prosody_status prosody_queue_poll(prosody_queue *queue, void *buffer, size_t capacity,
                                  int32_t timeout_ms, size_t *size, uint32_t *count,
                                  prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  NEED(count != NULL, "count: NULL");
  WRITABLE(buffer, capacity);
  NEED((uintptr_t)buffer % 8 == 0, "buffer: not aligned to 8");
  NEED(timeout_ms >= -1, "timeout_ms: below -1");
  *size = 0;
  *count = 0;
  return shim_take(queue, buffer, capacity, 0, timeout_ms, size, count, error);
}

prosody_status shim_dispatchable(prosody_queue *queue, const prosody_handler *handler,
                                 int32_t timeout_ms, prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  NEED(handler != NULL, "handler: NULL, or size is too small");
  NEED(timeout_ms >= -1, "timeout_ms: below -1");
  return PROSODY_OK;
}

prosody_status prosody_queue_wake(prosody_queue *queue) {
  prosody_error *error = NULL;
  ENTER(error);
  HANDLE(queue);
  return goQueueWake(RAW(queue));
}

void prosody_queue_destroy(prosody_queue *queue) {
  if (queue != NULL && !shim_forked()) goQueueDestroy(RAW(queue));
}

/* ---- Client --------------------------------------------------------------------------------- */

prosody_status prosody_client_create(prosody_config *config, prosody_queue *queue, uint64_t tag,
                                     prosody_client **out, prosody_error *error) {
  ENTER(error);
  NEED(out != NULL, "out: NULL");
  HANDLE(config);
  HANDLE(queue);
  return goClientCreate(RAW(config), RAW(queue), tag, (uintptr_t *)out, error);
}

prosody_status prosody_client_log(prosody_client *client, prosody_queue *queue,
                                  prosody_error *error) {
  ENTER(error);
  HANDLE(client);
  return goClientLog(RAW(client), RAW(queue), error);
}

#define LIFE(name, enter)                                                                          \
  prosody_status name(prosody_client *client, prosody_queue *queue, uint64_t tag,                  \
                      prosody_error *error) {                                                      \
    ENTER(error);                                                                                  \
    HANDLE(client);                                                                                \
    HANDLE(queue);                                                                                 \
    return enter(RAW(client), RAW(queue), tag, error);                                             \
  }

LIFE(prosody_client_subscribe, goClientSubscribe)
LIFE(prosody_client_unsubscribe, goClientUnsubscribe)
LIFE(prosody_client_shutdown, goClientShutdown)

/* Copies a record and checks it; excise tells whether its payload has to be null. */
static prosody_status take_record(prosody_outgoing *out, const prosody_outgoing *record, int excise,
                                  prosody_error *error) {
  NEED(record != NULL, "record: NULL");
  NEED(record->size >= sizeof *record, "record: size is too small");
  *out = *record;
  NEED(out->headers != NULL || out->headers_count == 0, "headers: NULL with a count");
  if (out->headers_count == 0) out->headers = NULL;
  READABLE(out->topic, "topic");
  READABLE(out->key, "key");
  if (out->payload.size > LARGEST)
    return refuse(error, PROSODY_ERR_TOO_LARGE, "payload: over 1 GiB");
  READABLE(out->payload, "payload");
  NEED(!excise || out->payload.data == NULL, "payload: must be null in an excise record");
  NEED(excise || out->payload.data != NULL, "payload: null, which is for an excise record");
  return PROSODY_OK;
}

static prosody_status send_record(prosody_client *client, prosody_queue *queue, uint64_t tag,
                                  const prosody_outgoing *record, int excise,
                                  prosody_error *error) {
  ENTER(error);
  HANDLE(client);
  HANDLE(queue);
  prosody_outgoing out;
  prosody_status status = take_record(&out, record, excise, error);
  return status != PROSODY_OK ? status : goClientSend(RAW(client), RAW(queue), tag, &out, error);
}

prosody_status prosody_client_send(prosody_client *client, prosody_queue *queue, uint64_t tag,
                                   const prosody_outgoing *record, prosody_error *error) {
  return send_record(client, queue, tag, record, 0, error);
}

prosody_status prosody_client_excise(prosody_client *client, prosody_queue *queue, uint64_t tag,
                                     const prosody_outgoing *record, prosody_error *error) {
  return send_record(client, queue, tag, record, 1, error);
}

static prosody_status request_record(prosody_client *client, prosody_queue *queue, uint64_t tag,
                                     const prosody_request *request, int excise,
                                     prosody_error *error) {
  ENTER(error);
  HANDLE(client);
  HANDLE(queue);
  NEED(request != NULL, "request: NULL");
  NEED(request->size >= sizeof *request, "request: size is too small");
  prosody_request made = *request;
  NEED(made.subsystems != NULL || made.subsystems_count == 0, "subsystems: NULL with a count");
  if (made.subsystems_count == 0) made.subsystems = NULL;
  NEED(made.timeout_ms >= 0, "timeout_ms: below 0");
  prosody_outgoing out;
  prosody_status status = take_record(&out, made.record, excise, error);
  made.record = &out;
  return status != PROSODY_OK ? status
                              : goClientRequest(RAW(client), RAW(queue), tag, &made, error);
}

prosody_status prosody_client_request(prosody_client *client, prosody_queue *queue, uint64_t tag,
                                      const prosody_request *request, prosody_error *error) {
  return request_record(client, queue, tag, request, 0, error);
}

prosody_status prosody_client_request_excise(prosody_client *client, prosody_queue *queue,
                                             uint64_t tag, const prosody_request *request,
                                             prosody_error *error) {
  return request_record(client, queue, tag, request, 1, error);
}

LIFE(prosody_client_abandon, goClientAbandon)

prosody_status prosody_client_state(prosody_client *client, int32_t *state, prosody_error *error) {
  ENTER(error);
  HANDLE(client);
  NEED(state != NULL, "state: NULL");
  return goClientState(RAW(client), state, error);
}

prosody_status prosody_client_partitions(prosody_client *client, uint32_t *count,
                                         prosody_error *error) {
  ENTER(error);
  HANDLE(client);
  NEED(count != NULL, "count: NULL");
  return goClientPartitions(RAW(client), count, error);
}

prosody_status prosody_client_stalled(prosody_client *client, int32_t *stalled,
                                      prosody_error *error) {
  ENTER(error);
  HANDLE(client);
  NEED(stalled != NULL, "stalled: NULL");
  return goClientStalled(RAW(client), stalled, error);
}

prosody_status prosody_client_source(prosody_client *client, void *buffer, size_t capacity,
                                     size_t *size, prosody_error *error) {
  ENTER(error);
  HANDLE(client);
  WRITABLE(buffer, capacity);
  return goClientSource(RAW(client), buffer, capacity, size, error);
}

prosody_status prosody_client_stats(prosody_client *client, void *buffer, size_t capacity,
                                    size_t *size, prosody_error *error) {
  ENTER(error);
  HANDLE(client);
  WRITABLE(buffer, capacity);
  return goClientStats(RAW(client), buffer, capacity, size, error);
}

void prosody_client_destroy(prosody_client *client) {
  if (client != NULL && !shim_forked()) goClientDestroy(RAW(client));
}

/* ---- Telemetry ------------------------------------------------------------------------------ */

prosody_status prosody_telemetry_flush(prosody_queue *queue, uint64_t tag, prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  return goTelemetryFlush(RAW(queue), tag, error);
}

prosody_status prosody_telemetry_shutdown(prosody_queue *queue, uint64_t tag,
                                          prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  return goTelemetryShutdown(RAW(queue), tag, error);
}

/* ---- Invocations ---------------------------------------------------------------------------- */

prosody_status prosody_complete(const prosody_outcome *outcomes, size_t count,
                                prosody_error *error) {
  ENTER(error);
  NEED(outcomes != NULL || count == 0, "outcomes: NULL with a count");
  NEED(count <= LARGEST / sizeof *outcomes, "count: too large");
  for (size_t i = 0; i < count; i++) {
    prosody_outcome one = outcomes[i];
    NEED(one.size >= sizeof one, "outcome: size is too small");
    NEED(one.result >= PROSODY_RESULT_SUCCESS && one.result <= PROSODY_RESULT_PERMANENT,
         "outcome: no such result");
    READABLE(one.response, "response");
    READABLE(one.error_text, "error_text");
  }
  return count == 0 ? PROSODY_OK : goComplete((prosody_outcome *)outcomes, count, error);
}

prosody_status prosody_should_cancel(uint64_t invocation) {
  prosody_error *error = NULL;
  ENTER(error);
  return goShouldCancel(invocation);
}

/* ---- Timers --------------------------------------------------------------------------------- */

#define FLAGS(known) NEED((flags & ~(uint32_t)(known)) == 0, "flags: no such flag")

#define SECOND()                                                                                   \
  do {                                                                                             \
    if (second < 0 || second > UINT32_MAX)                                                         \
      return refuse(error, PROSODY_ERR_INVALID, "Invalid time: Time is out of range");             \
  } while (0)

prosody_status prosody_timer_schedule(uint64_t invocation, prosody_queue *queue, uint64_t tag,
                                      int64_t second, uint32_t flags, prosody_error *error) {
  ENTER(error);
  FLAGS(PROSODY_TIMER_CLEAR | PROSODY_TIMER_IMMEDIATE);
  SECOND();
  return goTimerSchedule(invocation, RAW(queue), tag, second, flags, error);
}

prosody_status prosody_timer_unschedule(uint64_t invocation, prosody_queue *queue, uint64_t tag,
                                        int64_t second, uint32_t flags, prosody_error *error) {
  ENTER(error);
  FLAGS(PROSODY_TIMER_IMMEDIATE);
  SECOND();
  return goTimerUnschedule(invocation, RAW(queue), tag, second, flags, error);
}

prosody_status prosody_timer_clear(uint64_t invocation, prosody_queue *queue, uint64_t tag,
                                   uint32_t flags, prosody_error *error) {
  ENTER(error);
  FLAGS(PROSODY_TIMER_IMMEDIATE);
  return goTimerClear(invocation, RAW(queue), tag, flags, error);
}

prosody_status prosody_timer_list(uint64_t invocation, prosody_queue *queue, uint64_t tag,
                                  int64_t *seconds, size_t capacity, size_t *count,
                                  prosody_error *error) {
  ENTER(error);
  HANDLE(queue);
  NEED(count != NULL, "count: NULL");
  NEED(seconds != NULL || capacity == 0, "seconds: NULL with a capacity");
  if (capacity > LARGEST / sizeof *seconds) capacity = LARGEST / sizeof *seconds;
  return goTimerList(invocation, RAW(queue), tag, capacity ? seconds : NULL, capacity, count,
                     error);
}

/* ---- Topics --------------------------------------------------------------------------------- */

prosody_status prosody_admin_create(prosody_config *config, prosody_admin **out,
                                    prosody_error *error) {
  ENTER(error);
  NEED(out != NULL, "out: NULL");
  HANDLE(config);
  return goAdminCreate(RAW(config), (uintptr_t *)out, error);
}

prosody_status prosody_admin_create_topic(prosody_admin *admin, prosody_queue *queue, uint64_t tag,
                                          const prosody_topic *topic, prosody_error *error) {
  ENTER(error);
  HANDLE(admin);
  HANDLE(queue);
  NEED(topic != NULL, "topic: NULL");
  NEED(topic->size >= sizeof *topic, "topic: size is too small");
  prosody_topic made = *topic;
  READABLE(made.name, "name");
  READABLE(made.cleanup_policy, "cleanup_policy");
  return goAdminCreateTopic(RAW(admin), RAW(queue), tag, &made, error);
}

prosody_status prosody_admin_delete_topic(prosody_admin *admin, prosody_queue *queue, uint64_t tag,
                                          prosody_bytes name, prosody_error *error) {
  ENTER(error);
  HANDLE(admin);
  HANDLE(queue);
  READABLE(name, "name");
  return goAdminDeleteTopic(RAW(admin), RAW(queue), tag, name, error);
}

void prosody_admin_destroy(prosody_admin *admin) {
  if (admin != NULL && !shim_forked()) goAdminDestroy(RAW(admin));
}
