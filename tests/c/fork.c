/* In a forked child each call says so at once, whether the parent used the library or not. */
#include <sys/wait.h>

#include "test.h"

static void forked(prosody_status status) { STATUS(PROSODY_ERR_FORKED, status); }

/* Timers, state, requests, mock mode and telemetry; ENTER comes before all other checks. */
static void parts(host *h) {
  static _Alignas(8) char buffer[256];
  static int64_t seconds[4];
  prosody_bytes name = bytes("name"), none = {NULL, 0};
  prosody_collection wanted = {.size = sizeof wanted, .kind = 1, .name = name};
  prosody_item item = {.size = sizeof item, .json = bytes("1")};
  prosody_outgoing out = {.size = sizeof out, .topic = name, .key = name, .payload = bytes("1")};
  prosody_request request = {
      .size = sizeof request, .subsystems_count = 1, .subsystems = &name, .record = &out};
  prosody_record record = {0};
  prosody_timer timer;
  prosody_reader *reader;
  prosody_queue *q = h->queue;
  uint64_t state = 1, token = 1;
  int64_t length;
  uint8_t found;
  uint32_t count;
  int32_t kind;
  size_t size;
#define ROOM buffer, sizeof buffer, &size
  CHECK(strcmp(prosody_status_name(PROSODY_OK), "PROSODY_OK") == 0);
  forked(prosody_client_send(h->client, q, 1, &out, NULL));
  forked(prosody_client_excise(h->client, q, 1, &out, NULL));
  forked(prosody_client_request(h->client, q, 1, &request, NULL));
  forked(prosody_client_request_excise(h->client, q, 1, &request, NULL));
  forked(prosody_client_abandon(h->client, q, 1, NULL));
  forked(prosody_answer_decode(name, 0, &kind, &none, &none, &size));
  forked(prosody_timer_decode(&record, &timer));
  forked(prosody_timer_schedule(1, q, 1, 1, 0, NULL));
  forked(prosody_timer_unschedule(1, q, 1, 1, 0, NULL));
  forked(prosody_timer_clear(1, q, 1, 0, NULL));
  forked(prosody_timer_list(1, q, 1, seconds, 4, &size, NULL));
  forked(prosody_state_bind(1, &wanted, &state, NULL));
  forked(prosody_state_commit(1, q, 1, NULL));
  forked(prosody_state_rollback(1, q, 1, NULL));
  forked(prosody_state_clear(1, q, 1, NULL));
  forked(prosody_state_empty(1, q, 1, NULL));
  forked(prosody_state_contains(1, q, 1, name, NULL));
  forked(prosody_state_contains_many(1, q, 1, &name, 1, &found, NULL));
  forked(prosody_value_get(1, q, 1, ROOM, NULL));
  forked(prosody_value_set(1, q, 1, &item, NULL));
  forked(prosody_map_get(1, q, 1, name, ROOM, NULL));
  forked(prosody_map_get_many(1, q, 1, &name, 1, ROOM, NULL));
  forked(prosody_map_set(1, q, 1, name, &item, NULL));
  forked(prosody_map_remove(1, q, 1, name, NULL));
  forked(prosody_set_add(1, q, 1, name, NULL));
  forked(prosody_set_remove(1, q, 1, name, NULL));
  forked(prosody_deque_push(1, q, 1, PROSODY_BACK, &item, NULL));
  forked(prosody_deque_pop(1, q, 1, PROSODY_BACK, ROOM, NULL));
  forked(prosody_deque_peek(1, q, 1, PROSODY_BACK, ROOM, NULL));
  forked(prosody_deque_get(1, q, 1, 0, ROOM, NULL));
  forked(prosody_deque_size(1, q, 1, &length, NULL));
  forked(prosody_scan_open(1, NULL, &token, NULL));
  forked(prosody_scan_next(1, q, 1, ROOM, &count, NULL));
  forked(prosody_reader_open(h->client, name, &wanted, &reader, NULL));
  forked(prosody_reader_bind((prosody_reader *)buffer, name, &state, NULL));
  forked(prosody_mock_advance(name, 1, NULL));
  forked(prosody_mock_idle(name, q, 1, 1, NULL));
  forked(prosody_mock_records(name, name, 0, ROOM, &count, NULL));
  forked(prosody_mock_fail(name, 1, none, 1, NULL));
  forked(prosody_mock_rebalance(name, name, PROSODY_CANCEL_LOST, NULL));
  forked(prosody_mock_forget(name, NULL));
  forked(prosody_mock_reader(h->client, name, &wanted, &reader, NULL));
  forked(prosody_telemetry_flush(q, 1, NULL));
  forked(prosody_telemetry_shutdown(q, 1, NULL));
  forked(prosody_trace_enter(none, none));
  prosody_state_release(1);
  prosody_scan_close(1);
  prosody_reader_destroy((prosody_reader *)buffer);
}

static void child(prosody_config *config, host *h, prosody_admin *admin) {
  size_t size;
  uint32_t count;
  int32_t number;
  _Alignas(8) char buffer[256];
  prosody_error error = fresh();
  prosody_outcome outcome = {.size = sizeof outcome};
  prosody_topic topic = {.size = sizeof topic};
  prosody_bytes name = bytes("group_id");
  prosody_record record = {0};
  prosody_message message = {0};
  prosody_config *c;
  prosody_queue *q;
  prosody_client *x;
  prosody_admin *a;
  alarm(20);
  CHECK(prosody_abi_version() == PROSODY_ABI_VERSION);
  CHECK(strlen(prosody_version()) > 0);
  forked(prosody_signals_fix());
  forked(prosody_options(buffer, 1, &size, &error));
  CHECK(error.status == PROSODY_ERR_FORKED && error.category == PROSODY_CATEGORY_CLOSED);
  forked(prosody_config_create(&c, NULL));
  forked(prosody_config_set(config, name, name, NULL));
  forked(prosody_config_set_list(config, name, &name, 1, NULL));
  forked(prosody_config_set_none(config, name, NULL));
  forked(prosody_config_check(config, buffer, 1, &size, NULL));
  forked(prosody_queue_create(&q, NULL));
  CHECK(prosody_queue_fd(h->queue) == -1);
  forked(prosody_queue_poll(h->queue, buffer, sizeof buffer, -1, &size, &count, NULL));
  forked(prosody_queue_wake(h->queue));
  forked(prosody_queue_dispatch(h->queue, &h->handler, -1, &count, NULL));
  forked(prosody_message_decode(&record, &message));
  forked(prosody_message_header(&message, 0, &name, &name));
  forked(prosody_client_create(config, h->queue, 1, &x, NULL));
  forked(prosody_client_log(h->client, NULL, NULL));
  forked(prosody_client_subscribe(h->client, h->queue, 1, NULL));
  forked(prosody_client_unsubscribe(h->client, h->queue, 1, NULL));
  forked(prosody_client_shutdown(h->client, h->queue, 1, NULL));
  forked(send_record(h->client, h->queue, 1, "t", bytes("k"), bytes("{}")));
  forked(send_record(h->client, h->queue, 1, "t", bytes("k"), bytes(NULL)));
  forked(prosody_client_state(h->client, &number, NULL));
  forked(prosody_client_partitions(h->client, &count, NULL));
  forked(prosody_client_stalled(h->client, &number, NULL));
  forked(prosody_client_source(h->client, buffer, 1, &size, NULL));
  forked(prosody_client_stats(h->client, buffer, 1, &size, NULL));
  forked(prosody_complete(&outcome, 1, NULL));
  forked(prosody_should_cancel(1));
  forked(prosody_trace_enter(name, name));
  forked(prosody_telemetry_flush(h->queue, 1, NULL));
  forked(prosody_telemetry_shutdown(h->queue, 1, NULL));
  forked(prosody_admin_create(config, &a, NULL));
  forked(prosody_admin_create_topic(admin, h->queue, 1, &topic, NULL));
  forked(prosody_admin_delete_topic(admin, h->queue, 1, name, NULL));
  parts(h);
  prosody_config_destroy(config);
  prosody_queue_destroy(h->queue);
  prosody_client_destroy(h->client);
  prosody_admin_destroy(admin);
  _exit(0);
}

static void run(prosody_config *config, host *h, prosody_admin *admin) {
  int status;
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) child(config, h, admin);
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
  host h;
  memset(&h, 0, sizeof h);
  for (int i = 0; i < 20; i++) run(NULL, &h, NULL); /* no call before the fork */
  host_init(&h);
  prosody_config *config = mock_config("fork");
  host_client(&h, config);
  PENDING(prosody_client_subscribe(h.client, h.queue, 2, NULL));
  OK(await(&h, 2));
  prosody_admin *admin;
  OK(prosody_admin_create(config, &admin, NULL));
  for (int i = 0; i < 20; i++) run(config, &h, admin);

  /* The parent goes on, and a program that it runs does too. */
  PENDING(send_record(h.client, h.queue, 3, "fork", bytes("k"), bytes("{}")));
  UNTIL(&h, h.events == 1);
  CHECK(system("true") == 0);
  prosody_admin_destroy(admin);
  prosody_config_destroy(config);
  PENDING(prosody_client_shutdown(h.client, h.queue, 4, NULL));
  OK(await(&h, 4));
  prosody_client_destroy(h.client);
  host_free(&h);
  return 0;
}
