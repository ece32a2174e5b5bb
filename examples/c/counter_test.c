/* The test of counter.c. */
#define main counter_main
#include "counter.c"
#undef main
#include "kit.h"

static void start(const char *servers) {
  kit_start((service){.message = on_message, .excise = on_excise, .timer = on_timer}, OPTIONS,
            servers);
}

static void each_message_counts_once(void) {
  start("counter-1");
  kit_send("a", "{}");
  kit_send("b", "{}");
  kit_send("a", "{}");
  CHECK(prosody_mock_fail(text("counter-1"), PROSODY_MOCK_WRITE, text("a"), 3, NULL) == PROSODY_OK);
  kit_idle();
  kit_restart();
  kit_idle();
  CHECK(strcmp(kit_read("counter", "count", "a"), "2") == 0);
  CHECK(strcmp(kit_read("counter", "count", "b"), "1") == 0);
  CHECK(strcmp(kit_read("counter", "count", "c"), "") == 0);
  kit_stop();
}

static void an_excised_key_starts_anew(void) {
  start("counter-2");
  kit_send("a", "{}");
  kit_send("a", NULL);
  kit_send("a", "{}");
  kit_idle();
  CHECK(strcmp(kit_read("counter", "count", "a"), "1") == 0);
  kit_stop();
}

int main(void) {
  each_message_counts_once();
  an_excised_key_starts_anew();
  return EXIT_SUCCESS;
}
