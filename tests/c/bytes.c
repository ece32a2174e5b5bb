/* A NUL is data: in keys, payloads, headers, texts and option values, in the middle and at the
   end; empty is not null; nothing is cut. */
#include "test.h"

#define S(text) sized(text, sizeof(text) - 1)

static prosody_bytes wanted_key, wanted_payload;
static int seen;

static void inspect(const prosody_message *message) {
  prosody_bytes name, value;
  CHECK(same(message->key, wanted_key));
  CHECK(same(message->payload, wanted_payload));
  OK(prosody_message_header(message, 0, &name, &value));
  CHECK(same(name, S("name")) && same(value, S("\0v\0")));
  OK(prosody_message_header(message, 1, &name, &value));
  CHECK(same(name, S("")) && same(value, S("")));
  OK(prosody_message_header(message, 2, &name, &value));
  CHECK(same(name, S("null")) && value.data == NULL);
  OK(prosody_message_header(message, 3, &name, &value));
  CHECK(same(value, S("\xff\xfe not text")));
  seen++;
}

static void round_trip(host *h, prosody_bytes key, prosody_bytes payload) {
  prosody_header list[] = {{S("name"), S("\0v\0")},
                           {S(""), S("")},
                           {S("null"), {NULL, 0}},
                           {S("raw"), S("\xff\xfe not text")}};
  prosody_outgoing out;
  memset(&out, 0, sizeof out);
  out.size = sizeof out;
  out.topic = S("bytes");
  out.key = wanted_key = key;
  out.payload = wanted_payload = payload;
  out.headers = list;
  out.headers_count = 4;
  int before = seen;
  if (payload.data == NULL)
    PENDING(prosody_client_excise(h->client, h->queue, 5, &out, NULL));
  else
    PENDING(prosody_client_send(h->client, h->queue, 5, &out, NULL));
  UNTIL(h, seen == before + 1);
}

int main(void) {
  host h;
  host_init(&h);
  prosody_config *config = mock_config("bytes");
  host_client(&h, config);
  PENDING(prosody_client_subscribe(h.client, h.queue, 2, NULL));
  OK(await(&h, 2));
  h.inspect = inspect;
  round_trip(&h, S("a\0b\0"), S("{\"a\":\"\\u0000\"}"));
  round_trip(&h, S("\0"), S(" \"x\" "));
  round_trip(&h, S(""), S("null"));
  round_trip(&h, S("k"), sized(NULL, 0));
  static char large[900000];
  memset(large, ' ', sizeof large);
  large[0] = '[';
  large[sizeof large - 1] = ']';
  round_trip(&h, S("large"), sized(large, sizeof large));
  h.inspect = NULL;

  /* A topic with a NUL is refused; so is a payload that is empty. */
  prosody_error error = fresh();
  prosody_outgoing out;
  memset(&out, 0, sizeof out);
  out.size = sizeof out;
  out.topic = S("a\0b");
  out.key = S("k");
  out.payload = S("{}");
  STATUS(PROSODY_ERR_INVALID, prosody_client_send(h.client, h.queue, 6, &out, &error));
  CHECK(error.text_size > 0);
  out.topic = S("bytes");
  prosody_header header = {S("a\0b"), S("v")};
  out.headers = &header;
  out.headers_count = 1;
  STATUS(PROSODY_ERR_ARGUMENT, prosody_client_send(h.client, h.queue, 6, &out, &error));
  out.headers_count = 0;
  out.payload = S("");
  STATUS(PROSODY_ERR_INVALID, prosody_client_send(h.client, h.queue, 6, &out, &error));
  out.payload = S("{}");
  out.key = S("\xff");
  STATUS(PROSODY_ERR_INVALID, prosody_client_send(h.client, h.queue, 6, &out, &error));

  /* Texts of errors: with a NUL, broken, long. */
  h.hold = 1;
  out.key = S("k");
  PENDING(prosody_client_send(h.client, h.queue, 6, &out, NULL));
  int before = h.events;
  UNTIL(&h, h.events == before + 1);
  static char text[10 << 20];
  memset(text, 0xff, sizeof text);
  text[3] = 0;
  prosody_outcome outcome;
  memset(&outcome, 0, sizeof outcome);
  outcome.size = sizeof outcome;
  outcome.result = PROSODY_RESULT_PERMANENT;
  outcome.invocation = h.invocations[before];
  outcome.error_text = sized(text, sizeof text);
  outcome.response = S("\"\0\"");
  OK(prosody_complete(&outcome, 1, NULL));

  /* An option's value with a NUL arrives whole; an error's text is cut between characters. */
  char source[64];
  size_t size;
  prosody_client *other;
  OK(prosody_config_set(config, S("source_system"), S("a\0b"), NULL));
  prosody_status status = prosody_client_create(config, h.queue, 7, &other, &error);
  if (status == PROSODY_PENDING) {
    OK(await(&h, 7));
    OK(prosody_client_source(other, source, sizeof source, &size, NULL));
    CHECK(size == 3 && memcmp(source, "a\0b", 3) == 0);
    prosody_client_destroy(other);
  } else {
    STATUS(PROSODY_ERR_ARGUMENT, status);
  }
  static char name[3001];
  for (int i = 0; i < 3000; i += 3) memcpy(name + i, "\xe2\x82\xac", 3);
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_set(config, bytes(name), S("x"), &error));
  CHECK(error.text_size > sizeof error.text);
  size_t kept = strlen(error.text);
  CHECK(kept >= sizeof error.text - 4 && kept < sizeof error.text);
  CHECK(((unsigned char)error.text[kept - 1] & 0x80) == 0 ||
        memcmp(error.text + kept - 3, "\xe2\x82\xac", 3) == 0);

  prosody_config_destroy(config);
  PENDING(prosody_client_shutdown(h.client, h.queue, 8, NULL));
  OK(await(&h, 8));
  prosody_client_destroy(h.client);
  host_free(&h);
  return 0;
}
