/* Requests in mock mode: answers, their packed form, time, and what is given up. */
#include "test.h"

static prosody_client *asked;
static const char *response;

/* Answers a message with what the test wants; records without a waiting sender get none. */
static void answer(void *user_data, const prosody_message *message) {
  host *h = user_data;
  int waits = (message->flags & PROSODY_FLAG_RESPONSE) != 0;
  prosody_outcome outcome;
  memset(&outcome, 0, sizeof outcome);
  outcome.size = sizeof outcome;
  outcome.invocation = message->invocation;
  outcome.result = h->result;
  if (h->result != PROSODY_RESULT_SUCCESS) outcome.error_text = bytes("no such order");
  if (waits && response != NULL) outcome.response = bytes(response);
  h->events++;
  h->retry = (uint32_t)waits;
  OK(prosody_complete(&outcome, 1, NULL));
}

static prosody_outgoing record_of(const char *payload) {
  prosody_outgoing out;
  memset(&out, 0, sizeof out);
  out.size = sizeof out;
  out.topic = bytes("request");
  out.key = bytes("k");
  out.payload = bytes(payload);
  return out;
}

/* Asks, and checks the number of answers; 0 waits for none. */
static void ask(host *h, uint64_t tag, const char *payload, const prosody_bytes *names,
                uint32_t count, int64_t timeout_ms) {
  prosody_outgoing out = record_of(payload);
  prosody_request request = {sizeof request, count, names, timeout_ms, &out};
  PENDING(payload == NULL ? prosody_client_request_excise(h->client, h->queue, tag, &request, NULL)
                          : prosody_client_request(h->client, h->queue, tag, &request, NULL));
}

static void expect(host *h, size_t index, const char *name, int32_t kind, const char *value) {
  prosody_bytes data = sized(h->data, h->data_size), subsystem, found;
  size_t offset = 0;
  int32_t got = 0;
  for (size_t i = 0; i <= index; i++)
    OK(prosody_answer_decode(data, offset, &got, &subsystem, &found, &offset));
  CHECK(same(subsystem, bytes(name)) && got == kind && same(found, bytes(value)));
}

static void outcomes(host *h) {
  prosody_bytes names[] = {bytes(" tests "), bytes("nobody")};
  response = "{\"a\": 1.0}";
  ask(h, 10, "1", names, 1, 30000);
  OK(await(h, 10));
  CHECK(h->values[h->completions - 1] == 1 && h->retry == 1);
  expect(h, 0, "tests", PROSODY_ANSWER_SUCCESS, "{\"a\": 1.0}");

  response = NULL;
  ask(h, 11, NULL, names, 1, 30000);
  OK(await(h, 11));
  expect(h, 0, "tests", PROSODY_ANSWER_SUCCESS, "null");

  response = "7";
  ask(h, 12, "1", names, 2, 10000);
  OK(await(h, 12));
  CHECK(h->values[h->completions - 1] == 2);
  expect(h, 0, "tests", PROSODY_ANSWER_SUCCESS, "7");
  expect(h, 1, "nobody", PROSODY_ANSWER_TIMEOUT, "no response arrived before the deadline");
  prosody_bytes data = sized(h->data, h->data_size), b;
  int32_t kind;
  size_t next;
  STATUS(PROSODY_END, prosody_answer_decode(data, data.size, &kind, &b, &b, &next));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_answer_decode(data, data.size + 1, &kind, &b, &b, &next));
  for (size_t cut = 1; cut < 24; cut++) /* shortened data is no answer */
    STATUS(PROSODY_ERR_ARGUMENT,
           prosody_answer_decode(sized(h->data, cut), 0, &kind, &b, &b, &next));

  response = "not JSON";
  ask(h, 13, "1", names, 1, 30000);
  OK(await(h, 13));
  expect(h, 0, "tests", PROSODY_ANSWER_MALFORMED, "the response did not decode");

  h->result = PROSODY_RESULT_PERMANENT;
  ask(h, 14, "1", names, 1, 30000);
  OK(await(h, 14));
  expect(h, 0, "tests", PROSODY_ANSWER_HANDLER, "no such order");
  h->result = PROSODY_RESULT_SUCCESS;

  int before = h->events;
  PENDING(send_record(h->client, h->queue, 15, "request", bytes("k"), bytes("1")));
  OK(await(h, 15));
  UNTIL(h, h->events == before + 1);
  CHECK(h->retry == 0); /* nobody waits for the response of a plain message */
}

static void ends(host *h) {
  prosody_bytes nobody = bytes("nobody"), twice[] = {bytes("a"), bytes(" a")};
  prosody_error error = fresh();
  ask(h, 20, "1", &nobody, 1, 600000);
  STATUS(PROSODY_ABSENT, prosody_client_abandon(h->client, h->queue, 21, &error));
  OK(prosody_client_abandon(h->client, h->queue, 20, &error));
  STATUS(PROSODY_ERR_CANCELLED, await(h, 20));
  STATUS(PROSODY_ABSENT, prosody_client_abandon(h->client, h->queue, 20, &error));

  int64_t begun = now_ms();
  ask(h, 22, "1", &nobody, 1, 0);
  OK(await(h, 22));
  CHECK(now_ms() - begun < 10000);
  expect(h, 0, "nobody", PROSODY_ANSWER_TIMEOUT, "no response arrived before the deadline");

  prosody_outgoing out = record_of("{");
  prosody_request request = {sizeof request, 1, &nobody, 1000, &out};
  STATUS(PROSODY_ERR_INVALID, prosody_client_request(h->client, h->queue, 23, &request, &error));
  out = record_of("1");
  request.subsystems = twice;
  request.subsystems_count = 2;
  STATUS(PROSODY_ERR_INVALID, prosody_client_request(h->client, h->queue, 23, &request, &error));
  CHECK(strstr(error.text, "more than once") != NULL);
  request.subsystems_count = 0;
  STATUS(PROSODY_ERR_INVALID, prosody_client_request(h->client, h->queue, 23, &request, &error));
  request.subsystems_count = 1;
  request.timeout_ms = -1;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_request(h->client, h->queue, 23, &request, &error));
  request.timeout_ms = 1;
  request.record = NULL;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_request(h->client, h->queue, 23, &request, &error));
}

int main(void) {
  host h;
  host_init(&h);
  prosody_config *config = mock_config("request");
  set(config, "subsystem", "tests");
  host_client(&h, config);
  asked = h.client;
  h.handler.on_message = answer;
  h.handler.on_excise = answer;
  PENDING(prosody_client_subscribe(h.client, h.queue, 2, NULL));
  OK(await(&h, 2));
  outcomes(&h);
  ends(&h);

  /* What waits ends with the client. */
  prosody_bytes nobody = bytes("nobody");
  ask(&h, 30, "1", &nobody, 1, 600000);
  PENDING(prosody_client_shutdown(h.client, h.queue, 31, NULL));
  STATUS(PROSODY_ERR_CLOSED, await(&h, 30));
  OK(await(&h, 31));
  prosody_outgoing out = record_of("1");
  prosody_request request = {sizeof request, 1, &nobody, 1000, &out};
  STATUS(PROSODY_ERR_CLOSED, prosody_client_request(h.client, h.queue, 32, &request, NULL));

  /* One made at once, while the client is still being made. */
  PENDING(prosody_client_create(config, h.queue, 40, &h.client, NULL));
  ask(&h, 41, "1", &nobody, 1, 50);
  OK(await(&h, 41));
  expect(&h, 0, "nobody", PROSODY_ANSWER_TIMEOUT, "no response arrived before the deadline");
  prosody_client_destroy(h.client);
  prosody_client_destroy(asked);
  prosody_config_destroy(config);
  host_free(&h);
  return 0;
}
