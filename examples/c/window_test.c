/* The test of window.c. */
#define main window_main
#include "window.c"
#undef main
#include "kit.h"

enum { HOUR = 3600 };

static service letters(void) {
  return (service){.message = on_message, .excise = on_excise, .timer = on_timer};
}

static void one_letter_for_a_window(void) {
  kit_start(letters(), OPTIONS, "window-1");
  kit_send("ann", "{\"order\":1}");
  kit_advance(20 * HOUR);
  kit_send("ann", "{\"order\":2}");
  kit_restart();
  kit_advance(3 * HOUR);
  CHECK(strcmp(kit_sent("letters"), "") == 0);
  kit_advance(2 * HOUR);
  CHECK(strstr(kit_sent("letters"), "\"orders\":[{\"order\":1},{\"order\":2}]}\n") != NULL);
  kit_send("ann", "{\"order\":3}");
  kit_advance(WINDOW_S + 1);
  CHECK(strstr(kit_sent("letters"), "\"orders\":[{\"order\":3}]}\n") != NULL);
  kit_stop();
}

static void an_excised_customer_gets_none(void) {
  kit_start(letters(), OPTIONS, "window-2");
  kit_send("ann", "{\"order\":1}");
  kit_send("ann", NULL);
  kit_advance(WINDOW_S + 1);
  CHECK(strcmp(kit_sent("letters"), "") == 0);
  kit_stop();
}

static void a_letter_waits_for_the_broker(void) {
  kit_start(letters(), OPTIONS, "window-3");
  kit_send("ann", "{\"order\":1}");
  kit_idle();
  prosody_bytes servers = text("window-3"), topic = text("letters");
  CHECK(prosody_mock_fail(servers, PROSODY_MOCK_PRODUCE, topic, -1, NULL) == PROSODY_OK);
  kit_advance(WINDOW_S + 1);
  CHECK(strcmp(kit_sent("letters"), "") == 0);
  CHECK(prosody_mock_fail(servers, PROSODY_MOCK_PRODUCE, topic, 0, NULL) == PROSODY_OK);
  kit_advance(HOUR);
  CHECK(strstr(kit_sent("letters"), "\"orders\":[{\"order\":1}]}\n") != NULL);
  kit_stop();
}

int main(void) {
  one_letter_for_a_window();
  an_excised_customer_gets_none();
  a_letter_waits_for_the_broker();
  return EXIT_SUCCESS;
}
