/* In a forked child each call says so at once, whether the parent used the library or not. */
#include <sys/wait.h>

#include "test.h"

static void forked(prosody_status status) { STATUS(PROSODY_ERR_FORKED, status); }

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
