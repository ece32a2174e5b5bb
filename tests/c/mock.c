/* What a test sees and does in mock mode: idle, records, faults, rebalance, state, forget. */
#include "test.h"

#define TOPIC "mock"

static host h;
static prosody_bytes servers;

static uint64_t tags = 100;

static void idle(void) {
  PENDING(prosody_mock_idle(servers, h.queue, ++tags, 10000, NULL));
  OK(await(&h, tags));
}

static void post(const char *key, const char *payload, prosody_status expected) {
  PENDING(send_record(h.client, h.queue, ++tags, TOPIC, bytes(key), bytes(payload)));
  STATUS(expected, await(&h, tags));
}

/* The keys of the topic's records, read with a small buffer. */
static void records(const char *expected) {
  _Alignas(8) char buffer[160];
  char keys[256] = "";
  size_t size;
  uint32_t count;
  uint64_t seen = 0;
  prosody_status status;
  while ((status = prosody_mock_records(servers, bytes(TOPIC), seen, buffer, sizeof buffer, &size,
                                        &count, NULL)) == PROSODY_OK) {
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
      prosody_message_record *record = (prosody_message_record *)(buffer + at);
      CHECK(record->head.token == 0 && record->head.size % 8 == 0);
      CHECK(record->head.kind == (record->payload_size == PROSODY_NULL_SIZE
                                      ? PROSODY_RECORD_EXCISE
                                      : PROSODY_RECORD_MESSAGE));
      strncat(keys, (char *)(record + 1) + record->topic_size, record->key_size);
      at += record->head.size;
    }
    CHECK(at == size);
    seen += count;
  }
  STATUS(PROSODY_END, status);
  CHECK(strcmp(keys, expected) == 0);
}

int main(void) {
  host_init(&h);
  prosody_config *config = mock_config(TOPIC);
  servers = bytes("embedded:mock");
  set(config, "bootstrap_servers", "embedded:mock");
  set(config, "shutdown_timeout", "200ms");
  set(config, "group_id", "group");
  host_client(&h, config);
  PENDING(prosody_client_subscribe(h.client, h.queue, 2, NULL));
  OK(await(&h, 2));

  idle();
  post("a", "1", PROSODY_OK);
  post("b", "1", PROSODY_OK);
  post("a", "2", PROSODY_OK);
  post("c", NULL, PROSODY_OK);
  idle();
  CHECK(h.events == 4);
  records("abac");

  /* Not even one record fits. */
  char small[8];
  size_t size = 0;
  uint32_t count = 0;
  STATUS(PROSODY_SHORT,
         prosody_mock_records(servers, bytes(TOPIC), 0, small, sizeof small, &size, &count, NULL));
  CHECK(size > sizeof small && count == 0);

  /* A handler that runs holds it up, and is named. */
  h.hold = 1;
  post("slow", "1", PROSODY_OK);
  UNTIL(&h, h.events >= 5);
  PENDING(prosody_mock_idle(servers, h.queue, 79, 20, NULL));
  STATUS(PROSODY_ERR_TIMEOUT, await(&h, 79));
  CHECK(strstr(h.texts[(h.completions - 1) % 64], "key \"slow\" runs") != NULL);

  /* It hears that its partition goes, and comes again. */
  OK(prosody_mock_rebalance(servers, bytes("group"), PROSODY_CANCEL_REVOKED, NULL));
  UNTIL(&h, h.cancels >= 1);
  CHECK(h.reason == PROSODY_CANCEL_REVOKED);
  h.hold = 0;
  end(h.invocations[4], PROSODY_RESULT_TRANSIENT);
  UNTIL(&h, h.events >= 6);
  idle();

  /* The next record is refused, and then none. */
  OK(prosody_mock_fail(servers, PROSODY_MOCK_PRODUCE, bytes(TOPIC), 1, NULL));
  post("d", "1", PROSODY_ERR_KAFKA);
  post("d", "2", PROSODY_OK);
  idle();
  records("abacslowd");

  STATUS(PROSODY_ERR_STATE, prosody_mock_forget(servers, NULL));
  prosody_reader *reader;
  prosody_collection value = {
      .size = sizeof value, .kind = PROSODY_KIND_VALUE, .name = bytes("count")};
  OK(prosody_mock_reader(h.client, bytes(TOPIC), &value, &reader, NULL));
  uint64_t state;
  char buffer[32];
  OK(prosody_reader_bind(reader, bytes("a"), &state, NULL));
  PENDING(prosody_value_get(state, h.queue, 80, buffer, sizeof buffer, &size, NULL));
  STATUS(PROSODY_ABSENT, await(&h, 80));
  prosody_state_release(state);
  prosody_reader_destroy(reader);

  PENDING(prosody_client_shutdown(h.client, h.queue, 81, NULL));
  OK(await(&h, 81));
  OK(prosody_mock_forget(servers, NULL));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_mock_forget(servers, NULL));
  prosody_config_destroy(config);
  host_free(&h);
  return 0;
}
