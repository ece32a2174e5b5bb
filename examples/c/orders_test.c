/* The test of orders.c. */
#define main orders_main
#include "orders.c"
#undef main
#include "kit.h"

/* A shop's request. The answer's kind, and its value, which has to hold a text. */
static int ask(const char *payload, const char *expected) {
  service *s = &kit.service;
  prosody_bytes subsystem = text("orders"), from, value;
  prosody_outgoing record = {.size = sizeof record,
                             .topic = text("orders"),
                             .key = text("order-1"),
                             .payload = text(payload)};
  prosody_request request = {.size = sizeof request,
                             .subsystems_count = 1,
                             .subsystems = &subsystem,
                             .timeout_ms = 5000,
                             .record = &record};
  int32_t kind;
  size_t next;
  CHECK(service_until(s, TAG_OTHER,
                      prosody_client_request(s->client, s->queue, TAG_OTHER, &request,
                                             &s->error)) == PROSODY_OK);
  prosody_bytes answers = {s->data, s->size};
  CHECK(prosody_answer_decode(answers, 0, &kind, &from, &value, &next) == PROSODY_OK);
  char got[256];
  snprintf(got, sizeof got, "%.*s", (int)value.size, (const char *)value.data);
  if (strstr(got, expected) == NULL) fprintf(stderr, "answer: %s\n", got);
  CHECK(strstr(got, expected) != NULL);
  return kind;
}

/* What the support desk reads. */
static const char *status_of(const char *key) { return kit_read("orders", "status", key); }

static void start(const char *servers) {
  kit_start((service){.message = on_message, .excise = on_excise, .timer = on_timer}, OPTIONS,
            servers);
}

static void from_placed_to_shipped(void) {
  start("orders-1");
  CHECK(ask(STEPS[0][0], "{\"status\":\"placed\"}") == PROSODY_ANSWER_SUCCESS);
  CHECK(ask(STEPS[1][0], "{\"status\":\"paid\"}") == PROSODY_ANSWER_SUCCESS);
  CHECK(ask(STEPS[2][0], "{\"status\":\"shipped\"}") == PROSODY_ANSWER_SUCCESS);
  kit_advance(PATIENCE_S + 1);
  CHECK(strcmp(status_of("order-1"), "\"shipped\"") == 0);
  kit_stop();
}

static void a_wrong_step_is_refused(void) {
  start("orders-2");
  CHECK(ask(STEPS[2][0], "the order is unknown") == PROSODY_ANSWER_HANDLER);
  kit_idle();
  CHECK(strcmp(status_of("order-1"), "") == 0);
  kit_stop();
}

static void an_unpaid_order_lapses(void) {
  start("orders-3");
  CHECK(ask(STEPS[0][0], "placed") == PROSODY_ANSWER_SUCCESS);
  kit_advance(PATIENCE_S + 1);
  CHECK(strcmp(status_of("order-1"), "\"lapsed\"") == 0);
  CHECK(ask(STEPS[1][0], "the order is \"lapsed\"") == PROSODY_ANSWER_HANDLER);
  kit_stop();
}

static void an_excised_order_is_unknown(void) {
  start("orders-4");
  CHECK(ask(STEPS[0][0], "placed") == PROSODY_ANSWER_SUCCESS);
  kit_send("order-1", NULL);
  kit_advance(PATIENCE_S + 1);
  CHECK(strcmp(status_of("order-1"), "") == 0);
  CHECK(ask(STEPS[0][0], "placed") == PROSODY_ANSWER_SUCCESS);
  kit_stop();
}

int main(void) {
  from_placed_to_shipped();
  a_wrong_step_is_refused();
  an_unpaid_order_lapses();
  an_excised_order_is_unknown();
  return EXIT_SUCCESS;
}
