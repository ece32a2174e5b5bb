/* A fault of the library's own, injected by PROSODY_FAULT: no crash, one fatal record for each
   queue, and a code from every later call. Runs against the build with the tag `faults`. */
#include "test.h"

static void poisoned(prosody_status status) { STATUS(PROSODY_ERR_POISONED, status); }

int main(void) {
  const char *wanted = getenv("PROSODY_FAULT");
  char fault[128];
  CHECK(wanted != NULL);
  snprintf(fault, sizeof fault, "%s", wanted);
  unsetenv("PROSODY_FAULT");

  host h, other;
  host_init(&h);
  host_init(&other);
  prosody_config *config = mock_config("panic");
  set(config, "state_collections",
      "[{\"name\":\"v\",\"kind\":\"value\"},{\"name\":\"m\",\"kind\":\"map\"},"
      "{\"name\":\"d\",\"kind\":\"deque\"},{\"name\":\"s\",\"kind\":\"set\"}]");
  prosody_admin *admin;
  host_client(&h, config);
  OK(prosody_admin_create(config, &admin, NULL));
  PENDING(prosody_client_subscribe(h.client, h.queue, 2, NULL));
  OK(await(&h, 2));
  h.hold = 1;
  prosody_collection collections[] = {
      {.size = sizeof *collections, .kind = PROSODY_KIND_VALUE, .name = bytes("v")},
      {.size = sizeof *collections, .kind = PROSODY_KIND_MAP, .name = bytes("m")},
      {.size = sizeof *collections, .kind = PROSODY_KIND_DEQUE, .name = bytes("d")},
      {.size = sizeof *collections, .kind = PROSODY_KIND_SET, .name = bytes("s")}};
  uint64_t v, m, d, s, scan, token;
  prosody_reader *reader, *opened;
  PENDING(send_record(h.client, h.queue, 3, "panic", bytes("k"), bytes("{}")));
  UNTIL(&h, h.events == 1);

  OK(prosody_state_bind(h.invocations[0], &collections[0], &v, NULL));
  OK(prosody_state_bind(h.invocations[0], &collections[1], &m, NULL));
  OK(prosody_state_bind(h.invocations[0], &collections[2], &d, NULL));
  OK(prosody_state_bind(h.invocations[0], &collections[3], &s, NULL));
  OK(prosody_scan_open(m, NULL, &scan, NULL));
  OK(prosody_reader_open(h.client, bytes("s"), &collections[0], &reader, NULL));

  size_t size;
  uint32_t count;
  int32_t number;
  int64_t length;
  uint8_t found;
  prosody_item item = {.size = sizeof item, .json = bytes("1")};
  _Alignas(8) static char buffer[65536];
  prosody_bytes name = bytes("group_id");
  prosody_outcome outcome = {.size = sizeof outcome, .invocation = h.invocations[0]};
  prosody_topic topic = {.size = sizeof topic, .name = bytes("t")};
  prosody_queue *q;
  prosody_config *c;
  prosody_client *x;
  prosody_admin *a;
  prosody_error error = fresh();

  /* The call in which the fault happens says so. */
  setenv("PROSODY_FAULT", fault, 1);
#define CALL(function, ...)                                                                        \
  if (strcmp(fault, #function) == 0) {                                                             \
    poisoned(function(__VA_ARGS__));                                                               \
    known = 1;                                                                                     \
  }
#define VOID(function, ...)                                                                        \
  if (strcmp(fault, #function) == 0) {                                                             \
    function(__VA_ARGS__);                                                                         \
    known = 1;                                                                                     \
  }
  int known = 0;
  prosody_outgoing out = {.size = sizeof out, .topic = bytes("panic"), .key = bytes("k")};
  prosody_outgoing full = out;
  full.payload = bytes("{}");
  CALL(prosody_options, buffer, sizeof buffer, &size, &error)
  CALL(prosody_config_create, &c, &error)
  CALL(prosody_config_set, config, name, name, &error)
  CALL(prosody_config_set_list, config, name, &name, 1, &error)
  CALL(prosody_config_set_none, config, name, &error)
  CALL(prosody_config_check, config, buffer, sizeof buffer, &size, &error)
  CALL(prosody_queue_create, &q, &error)
  CALL(prosody_queue_poll, h.queue, buffer, sizeof buffer, 0, &size, &count, &error)
  CALL(prosody_queue_wake, h.queue)
  CALL(prosody_client_create, config, h.queue, 9, &x, &error)
  CALL(prosody_client_log, h.client, h.queue, &error)
  CALL(prosody_client_subscribe, h.client, h.queue, 9, &error)
  CALL(prosody_client_unsubscribe, h.client, h.queue, 9, &error)
  CALL(prosody_client_shutdown, h.client, h.queue, 9, &error)
  CALL(prosody_client_send, h.client, h.queue, 9, &full, &error)
  CALL(prosody_client_excise, h.client, h.queue, 9, &out, &error)
  prosody_request asks = {
      .size = sizeof asks, .subsystems_count = 1, .subsystems = &name, .record = &full};
  CALL(prosody_client_request, h.client, h.queue, 9, &asks, &error)
  asks.record = &out;
  CALL(prosody_client_request_excise, h.client, h.queue, 9, &asks, &error)
  CALL(prosody_client_abandon, h.client, h.queue, 9, &error)
  CALL(prosody_client_state, h.client, &number, &error)
  CALL(prosody_client_partitions, h.client, &count, &error)
  CALL(prosody_client_stalled, h.client, &number, &error)
  CALL(prosody_client_source, h.client, buffer, sizeof buffer, &size, &error)
  CALL(prosody_client_stats, h.client, buffer, sizeof buffer, &size, &error)
  CALL(prosody_complete, &outcome, 1, &error)
  CALL(prosody_telemetry_flush, h.queue, 9, &error)
  CALL(prosody_telemetry_shutdown, h.queue, 9, &error)
  CALL(prosody_should_cancel, h.invocations[0])
  CALL(prosody_timer_schedule, h.invocations[0], NULL, 0, 1, 0, &error)
  CALL(prosody_timer_unschedule, h.invocations[0], NULL, 0, 1, 0, &error)
  CALL(prosody_timer_clear, h.invocations[0], NULL, 0, 0, &error)
  CALL(prosody_timer_list, h.invocations[0], h.queue, 9, NULL, 0, &size, &error)
  CALL(prosody_state_bind, h.invocations[0], &collections[0], &token, &error)
  CALL(prosody_state_commit, v, h.queue, 9, &error)
  CALL(prosody_state_rollback, v, h.queue, 9, &error)
  CALL(prosody_state_clear, v, h.queue, 9, &error)
  CALL(prosody_state_empty, m, h.queue, 9, &error)
  CALL(prosody_state_contains, m, h.queue, 9, name, &error)
  CALL(prosody_state_contains_many, m, h.queue, 9, &name, 1, &found, &error)
  CALL(prosody_value_get, v, h.queue, 9, buffer, sizeof buffer, &size, &error)
  CALL(prosody_value_set, v, h.queue, 9, &item, &error)
  CALL(prosody_map_get, m, h.queue, 9, name, buffer, sizeof buffer, &size, &error)
  CALL(prosody_map_get_many, m, h.queue, 9, &name, 1, buffer, sizeof buffer, &size, &error)
  CALL(prosody_map_set, m, h.queue, 9, name, &item, &error)
  CALL(prosody_map_remove, m, h.queue, 9, name, &error)
  CALL(prosody_set_add, s, h.queue, 9, name, &error)
  CALL(prosody_set_remove, s, h.queue, 9, name, &error)
  CALL(prosody_deque_push, d, h.queue, 9, PROSODY_BACK, &item, &error)
  CALL(prosody_deque_pop, d, h.queue, 9, PROSODY_BACK, buffer, sizeof buffer, &size, &error)
  CALL(prosody_deque_peek, d, h.queue, 9, PROSODY_BACK, buffer, sizeof buffer, &size, &error)
  CALL(prosody_deque_get, d, h.queue, 9, 0, buffer, sizeof buffer, &size, &error)
  CALL(prosody_deque_size, d, h.queue, 9, &length, &error)
  CALL(prosody_scan_open, m, NULL, &token, &error)
  CALL(prosody_scan_next, scan, h.queue, 9, buffer, sizeof buffer, &size, &count, &error)
  CALL(prosody_reader_open, h.client, name, &collections[0], &opened, &error)
  CALL(prosody_reader_bind, reader, name, &token, &error)
  VOID(prosody_scan_close, scan)
  VOID(prosody_state_release, v)
  VOID(prosody_reader_destroy, reader)
  CALL(prosody_mock_advance, name, 0, &error)
  CALL(prosody_mock_idle, name, h.queue, 9, 0, &error)
  CALL(prosody_mock_records, name, name, 0, buffer, sizeof buffer, &size, &count, &error)
  CALL(prosody_mock_fail, name, PROSODY_MOCK_READ, name, 0, &error)
  CALL(prosody_mock_rebalance, name, name, PROSODY_CANCEL_LOST, &error)
  CALL(prosody_mock_forget, name, &error)
  CALL(prosody_mock_reader, h.client, name, &collections[0], &opened, &error)
  CALL(prosody_admin_create, config, &a, &error)
  CALL(prosody_admin_create_topic, admin, h.queue, 9, &topic, &error)
  CALL(prosody_admin_delete_topic, admin, h.queue, 9, name, &error)
  VOID(prosody_config_destroy, config)
  VOID(prosody_client_destroy, h.client)
  VOID(prosody_admin_destroy, admin)
  if (strcmp(fault, "prosody_queue_fd") == 0) {
    CHECK(prosody_queue_fd(h.queue) == -1);
    known = 1;
  }
  if (strcmp(fault, "prosody_queue_destroy") == 0) {
    OK(prosody_queue_create(&q, NULL));
    prosody_queue_destroy(q);
    known = 1;
  }
  if (strcmp(fault, "client") == 0) { /* in a goroutine */
    PENDING(prosody_client_create(config, h.queue, 9, &x, &error));
    for (int64_t limit = now_ms() + 10000; prosody_should_cancel(0) != PROSODY_ERR_POISONED;)
      CHECK(now_ms() < limit);
    known = 1;
  }
  unsetenv("PROSODY_FAULT");
  if (!known) { /* those in plain C cannot have such a fault */
    printf("no fault in %s\n", fault);
    return 0;
  }

  /* Each queue says so once, and then there is nothing more to take. */
  host *both[] = {&h, &other};
  for (int i = 0; i < 2; i++) {
    host *one = both[i];
    for (int64_t limit = now_ms() + 10000; one->fatals == 0;) {
      prosody_status status =
          prosody_queue_dispatch(one->queue, &one->handler, 100, &count, &error);
      CHECK(now_ms() < limit && (status == PROSODY_OK || one->fatals == 1));
    }
    prosody_status status = PROSODY_OK;
    for (int64_t limit = now_ms() + 10000; status == PROSODY_OK && now_ms() < limit;)
      status = prosody_queue_dispatch(one->queue, &one->handler, 10, &count, &error);
    poisoned(status);
    CHECK(one->fatals == 1 && error.category == PROSODY_CATEGORY_FATAL);
    CHECK(strstr(error.text, "fault in") != NULL);
  }
  poisoned(end(h.invocations[0], PROSODY_RESULT_SUCCESS));
  poisoned(prosody_client_send(h.client, h.queue, 9, &full, &error));
  poisoned(prosody_client_subscribe(h.client, h.queue, 9, &error));
  poisoned(prosody_queue_create(&q, &error));
  poisoned(prosody_config_create(&c, &error));
  poisoned(prosody_options(buffer, sizeof buffer, &size, &error));
  CHECK(prosody_queue_fd(h.queue) >= 0);
  prosody_client_destroy(h.client);
  prosody_admin_destroy(admin);
  prosody_config_destroy(config);
  host_free(&h);
  host_free(&other);
  return 0;
}
