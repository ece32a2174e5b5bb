/* Plays scenarios.txt by way of C and writes the transcript. See there for the grammar. */
#include "driver.h"

#include <ctype.h>
#include <stdarg.h>
#include <time.h>

static const char definitions[] =
    "[{\"name\":\"v\",\"kind\":\"value\",\"published\":true,\"read_cache\":false},"
    "{\"name\":\"m\",\"kind\":\"map\"},{\"name\":\"s\",\"kind\":\"set\"},"
    "{\"name\":\"d\",\"kind\":\"deque\",\"capacity\":3},"
    "{\"name\":\"last\",\"kind\":\"value\",\"payload\":\"message\"}]";

scenario s;

void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s: %s\n", s.name, what, why);
  exit(1);
}

void must(const char *what, prosody_status status) {
  if (status != PROSODY_OK) fail(what, prosody_status_name(status));
}

void note(const char *key, const char *format, ...) {
  if (s.line_count == LINES) fail(key, "too many lines");
  line *l = &s.lines[s.line_count++];
  snprintf(l->key, sizeof l->key, "%s", key);
  va_list list;
  va_start(list, format);
  vsnprintf(l->text, sizeof l->text, format, list);
  va_end(list);
}

prosody_bytes bytes(const char *text) { return (prosody_bytes){text, strlen(text)}; }

void copy(char *to, size_t capacity, prosody_bytes from) {
  snprintf(to, capacity, "%.*s", (int)from.size, (const char *)from.data);
}

/* ---- The queue ------------------------------------------------------------------------------- */

/* The script inside a payload {"do":"..."}. */
void script_of(prosody_bytes payload, char *script, size_t capacity) {
  char text[1100];
  copy(text, sizeof text, payload);
  char *start = strstr(text, "\"do\":\"");
  if (start == NULL) fail(text, "no script");
  start += 6;
  size_t at = 0;
  for (; *start != '"' && at + 1 < capacity; start++) {
    if (*start == '\\') start++;
    script[at++] = *start;
  }
  script[at] = 0;
}

static event *add(uint64_t invocation, prosody_bytes key, uint32_t retry, uint32_t flags,
                  int64_t id) {
  if (s.last == EVENTS) fail("queue", "too many events");
  event *e = &s.waiting[s.last++];
  memset(e, 0, sizeof *e);
  copy(e->key, sizeof e->key, key);
  e->invocation = invocation, e->retry = retry, e->flags = flags, e->id = id;
  return e;
}

static void on_message(void *data, const prosody_message *m) {
  (void)data;
  event *e = add(m->invocation, m->key, m->retry, m->flags, m->offset);
  e->partition = m->partition, e->offset = m->offset;
  strcpy(e->kind, m->payload.data == NULL ? "excise" : "message");
  if (m->payload.data == NULL)
    strcpy(e->script, s.excise);
  else
    script_of(m->payload, e->script, sizeof e->script);
}

static void on_timer(void *data, const prosody_timer *t) {
  (void)data;
  event *e = add(t->invocation, t->key, t->retry, t->flags, -t->second);
  snprintf(e->kind, sizeof e->kind, "timer +%" PRId64, t->second - s.began);
  strcpy(e->script, s.timer);
}

static void on_cancel(void *data, uint64_t invocation, int32_t reason) {
  (void)data, (void)reason;
  for (int i = 0; i < s.hang_count; i++)
    if (s.hanging[i].invocation == invocation) s.hanging[i].cancelled = 1;
}

static void on_completion(void *data, const prosody_completion *c) {
  (void)data;
  s.answered = s.tags[c->tag % ANSWERS] = c->tag;
  s.statuses[c->tag % ANSWERS] = c->status;
  s.answer = *c;
  if (c->data.size > sizeof s.data) fail("completion", "too large");
  if (c->data.size > 0) memcpy(s.data, c->data.data, c->data.size);
  s.size = c->data.size;
}

static void step(void) {
  /* Few records at a time, so that a completion is seen before the next one. */
  static const prosody_handler handler = {.size = sizeof handler,
                                          .limit = 1,
                                          .on_message = on_message,
                                          .on_excise = on_message,
                                          .on_timer = on_timer,
                                          .on_cancel = on_cancel,
                                          .on_completion = on_completion};
  must("dispatch", prosody_queue_dispatch(s.queue, &handler, 100, NULL, NULL));
}

/* The status of a call, after its end; other events run meanwhile when `busy`. */
prosody_status settle(prosody_status status, int busy) {
  time_t limit = time(NULL) + 60;
  uint64_t tag = s.tag;
  if (status != PROSODY_PENDING) return status;
  while (s.tags[tag % ANSWERS] != tag) {
    if (time(NULL) > limit) fail("call", "no answer");
    step();
    if (busy && s.answered != tag) work();
  }
  memcpy(s.buffer, s.data, s.size);
  return s.statuses[tag % ANSWERS];
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void set(prosody_config *config, const char *name, const char *value) {
  must(name, prosody_config_set(config, bytes(name), bytes(value), NULL));
}

static prosody_client *make(prosody_config *config) {
  prosody_error error = {.size = sizeof error};
  prosody_client *client;
  set(config, "mock", "true");
  set(config, "bootstrap_servers", s.servers);
  prosody_status status = prosody_client_create(config, s.queue, ++s.tag, &client, &error);
  if (status != PROSODY_PENDING) fail("client", error.text);
  must("client", settle(status, 0));
  must("log", prosody_client_log(client, s.queue, NULL));
  prosody_config_destroy(config);
  return client;
}

static void begin(void) {
  prosody_config *config;
  must("config", prosody_config_create(&config, NULL));
  set(config, "group_id", "group");
  set(config, "source_system", TOPIC);
  set(config, "subscribed_topics", TOPIC);
  set(config, "subsystem", TOPIC);
  set(config, "state_collections", definitions);
  s.client = make(config);
  must("subscribe", settle(prosody_client_subscribe(s.client, s.queue, ++s.tag, NULL), 1));
}

static void outcome(const char *command, prosody_status status) {
  status = settle(status, 1);
  if (status != PROSODY_OK) note("main", "%s refused %s", command, prosody_status_name(status));
}

/* Sends a record; an excise record without a payload. */
static prosody_status record(prosody_client *client, const char *topic, const char *key,
                             const char *payload) {
  prosody_outgoing out = {.size = sizeof out, .topic = bytes(topic), .key = bytes(key)};
  if (payload == NULL) return prosody_client_excise(client, s.queue, ++s.tag, &out, NULL);
  out.payload = bytes(payload);
  return prosody_client_send(client, s.queue, ++s.tag, &out, NULL);
}

/* A payload with a script, and with an id when there is one. */
static const char *payload_of(const char *id, const char *script) {
  static char text[2048];
  size_t at =
      id == NULL ? (size_t)sprintf(text, "{") : (size_t)sprintf(text, "{\"id\":\"%s\",", id);
  at += (size_t)sprintf(text + at, "\"do\":\"");
  for (; *script != 0 && at + 4 < sizeof text; script++) {
    if (*script == '"') text[at++] = '\\';
    text[at++] = *script;
  }
  sprintf(text + at, "\"}");
  return text;
}

static void repeat(const char *key, char *rest) {
  char *script = strchr(rest, ' ');
  *script++ = 0;
  if (s.other == NULL) {
    prosody_config *config;
    must("config", prosody_config_create(&config, NULL));
    set(config, "source_system", "other");
    set(config, "idempotence_cache_size", "1");
    s.other = make(config);
  }
  must("send", settle(record(s.other, TOPIC, key, payload_of(rest, script)), 1));
  /* Its own memory of ids is no part of the story. */
  must("send", settle(record(s.other, "elsewhere", key, payload_of("forget", "")), 1));
}

static int ended(const char *key) {
  int count = 0;
  for (int i = 0; i < s.line_count; i++)
    if (strcmp(s.lines[i].key, key) == 0 &&
        (strcmp(s.lines[i].text, "ok") == 0 || strncmp(s.lines[i].text, "failed ", 7) == 0))
      count++;
  return count;
}

static void wait_for(const char *key, int count) {
  time_t limit = time(NULL) + 60;
  for (work(); ended(key) < count; work()) {
    if (time(NULL) > limit) fail(key, "too few attempts");
    step();
  }
}

static void read_published(const char *key) {
  prosody_error error = {.size = sizeof error};
  prosody_collection which = {
      .size = sizeof which, .kind = PROSODY_KIND_VALUE, .read_cache_ms = -1};
  prosody_reader *reader;
  uint64_t state;
  which.name = bytes("v");
  must("reader", prosody_reader_open(s.client, bytes(TOPIC), &which, &reader, &error));
  must("reader", prosody_reader_bind(reader, bytes(key), &state, &error));
  prosody_status status = settle(
      prosody_value_get(state, s.queue, ++s.tag, s.buffer, sizeof s.buffer, &s.size, &error), 1);
  if (status >= PROSODY_ERR_ARGUMENT) fail("read", prosody_status_name(status));
  note("main", "read %s -> %.*s", key, status == PROSODY_ABSENT ? 4 : (int)s.size,
       status == PROSODY_ABSENT ? "null" : s.buffer);
  prosody_state_release(state);
  prosody_reader_destroy(reader);
}

/* Sends a request, or an excise request without a script, and notes each answer. */
static void request(const char *command, const char *key, char *rest) {
  static const char *const failures[] = {"", "", "handler", "timeout", "format", "malformed"};
  prosody_error error = {.size = sizeof error};
  prosody_outgoing out = {.size = sizeof out, .topic = bytes(TOPIC), .key = bytes(key)};
  prosody_bytes names[8], name, value;
  prosody_request asked = {.size = sizeof asked, .subsystems = names, .record = &out};
  char *more, *word = strtok_r(rest, " ", &more);
  asked.timeout_ms = atoll(word) * 1000;
  word = strtok_r(NULL, " ", &more);
  if (strcmp(command, "request") == 0) out.payload = bytes(payload_of(NULL, more));
  for (char *next, *one = strtok_r(word, ",", &next); one; one = strtok_r(NULL, ",", &next))
    names[asked.subsystems_count++] = bytes(one);
  s.tag++;
  prosody_status status =
      out.payload.data == NULL
          ? prosody_client_request_excise(s.client, s.queue, s.tag, &asked, &error)
          : prosody_client_request(s.client, s.queue, s.tag, &asked, &error);
  must(command, settle(status, 1));
  prosody_bytes answers = {s.buffer, s.size};
  int32_t kind;
  for (size_t at = 0; prosody_answer_decode(answers, at, &kind, &name, &value, &at) == PROSODY_OK;)
    if (kind == PROSODY_ANSWER_SUCCESS)
      note("main", "%s %s %.*s -> %.*s", command, key, (int)name.size, (const char *)name.data,
           (int)value.size, (const char *)value.data);
    else
      note("main", "%s %s %.*s -> failure %s", command, key, (int)name.size,
           (const char *)name.data, failures[kind]);
}

static void tell_state(void) {
  static const char *const names[] = {"unconfigured", "configured", "running", "shut_down"};
  int32_t state;
  must("state", prosody_client_state(s.client, &state, NULL));
  note("main", "state %s", names[state]);
}

static void run(const char *command, char *rest) {
  char key[64] = "";
  int length = 0;
  sscanf(rest, "%63s %n", key, &length);
  char *more = rest + length;
#define IS(name) (strcmp(command, name) == 0)
  if (IS("send")) {
    outcome(command, record(s.client, TOPIC, key, payload_of(NULL, more)));
  } else if (IS("many")) {
    for (int left = (int)strtol(more, &more, 10); left > 0; left--)
      must("send", settle(record(s.client, TOPIC, key, payload_of(NULL, more + 1)), 1));
  } else if (IS("repeat")) {
    repeat(key, more);
  } else if (IS("excise")) {
    outcome(command, record(s.client, TOPIC, key, NULL));
  } else if (IS("wait")) {
    wait_for(key, atoi(more));
  } else if (IS("advance")) {
    must("advance", prosody_mock_advance(bytes(s.servers), atoll(key) * 1000, NULL));
  } else if (IS("request") || IS("erase")) {
    request(command, key, more);
  } else if (IS("read")) {
    read_published(key);
  } else if (IS("state")) {
    tell_state();
  } else if (IS("subscribe")) {
    outcome(command, prosody_client_subscribe(s.client, s.queue, ++s.tag, NULL));
  } else if (IS("unsubscribe")) {
    outcome(command, prosody_client_unsubscribe(s.client, s.queue, ++s.tag, NULL));
  } else if (IS("shutdown")) {
    outcome(command, prosody_client_shutdown(s.client, s.queue, ++s.tag, NULL));
  } else {
    fail("unknown step", command);
  }
}

static int by_key(const void *a, const void *b) {
  const line *x = a, *y = b;
  int order = (strcmp(y->key, "main") == 0) - (strcmp(x->key, "main") == 0);
  if (order == 0) order = strcmp(x->key, y->key);
  return order != 0 ? order : x->place - y->place;
}

static void finish(void) {
  if (s.client == NULL) return;
  must("shutdown", settle(prosody_client_shutdown(s.client, s.queue, ++s.tag, NULL), 1));
  if (s.other != NULL)
    must("shutdown", settle(prosody_client_shutdown(s.other, s.queue, ++s.tag, NULL), 1));
  prosody_client_destroy(s.client);
  prosody_client_destroy(s.other);
  prosody_queue_destroy(s.queue);
  printf("scenario %s\n", s.name);
  for (int i = 0; i < s.line_count; i++) s.lines[i].place = i;
  qsort(s.lines, (size_t)s.line_count, sizeof *s.lines, by_key);
  for (int i = 0; i < s.line_count; i++)
    if (strcmp(s.lines[i].key, "-") != 0) printf("> %s: %s\n", s.lines[i].key, s.lines[i].text);
  for (int i = 0; i < s.option_count; i++) unsetenv(s.options[i]);
}

static void start(const char *name) {
  finish();
  memset(&s, 0, sizeof s);
  snprintf(s.name, sizeof s.name, "%s", name);
  snprintf(s.servers, sizeof s.servers, "scenario-%s", name);
  s.began = time(NULL);
  must("queue", prosody_queue_create(&s.queue, NULL));
}

static void option(const char *name, const char *value) {
  char *env = s.options[s.option_count++];
  size_t at = (size_t)sprintf(env, "PROSODY_");
  for (; *name != 0; name++) env[at++] = (char)toupper((unsigned char)*name);
  env[at] = 0;
  setenv(env, value, 1);
}

/* Plays a line of the file. */
static void play_line(char *text) {
  char *rest = strchr(text, ' ');
  if (rest == NULL)
    rest = text + strlen(text);
  else
    *rest++ = 0;
  char *more = strchr(rest, ' ');
  if (strcmp(text, "scenario") == 0) {
    start(rest);
  } else if (strcmp(text, "option") == 0) {
    *more++ = 0;
    option(rest, more);
  } else if (strcmp(text, "on") == 0) {
    strcpy(*rest == 'e' ? s.excise : s.timer, more + 1);
  } else {
    if (s.client == NULL) begin();
    run(text, rest);
  }
}

int main(int argc, char **argv) {
  FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
  char text[2048];
  if (file == NULL) fail("usage", "driver SCENARIOS");
  while (fgets(text, sizeof text, file) != NULL) {
    text[strcspn(text, "\n")] = 0;
    if (*text != 0 && *text != '#' && *text != '>') play_line(text);
  }
  fclose(file);
  finish();
  return 0;
}
