/* The handlers of the C driver: runs the commands of scripts. */
#include "driver.h"

/* ---- Commands of scripts --------------------------------------------------------------------- */

static int kind_of(const char *command, const char *name) {
  if (strcmp(command, "at") == 0 || strcmp(command, "put") == 0) return PROSODY_KIND_MAP;
  if (strcmp(command, "push") == 0) return PROSODY_KIND_DEQUE;
  if (strcmp(command, "get") == 0) return PROSODY_KIND_VALUE;
  switch (*name) {
  case 'm':
    return PROSODY_KIND_MAP;
  case 's':
    return PROSODY_KIND_SET;
  case 'd':
    return PROSODY_KIND_DEQUE;
  default:
    return PROSODY_KIND_VALUE;
  }
}

#define CALL(function, ...) settle(function(state, s.queue, ++s.tag, __VA_ARGS__, &error), 0)
#define ACT(function) settle(function(state, s.queue, ++s.tag, &error), 0)
#define ROOM s.buffer, sizeof s.buffer, &s.size

/* Reads a scan as a JSON array of keys, of values or of pairs. */
static prosody_status list(uint64_t state, uint32_t flags, int keys, int values, char *out,
                           size_t capacity) {
  prosody_error error = {.size = sizeof error};
  prosody_scan query = {.size = sizeof query, .flags = flags};
  uint64_t scan;
  uint32_t count;
  size_t at = (size_t)snprintf(out, capacity, "[");
  must("scan", prosody_scan_open(state, &query, &scan, &error));
  for (const char *comma = "";;) {
    prosody_status status = settle(prosody_scan_next(scan, s.queue, ++s.tag, s.buffer,
                                                     sizeof s.buffer, &s.size, &count, &error),
                                   0);
    if (status == PROSODY_END) break;
    must("scan", status);
    for (size_t here = 0; here < s.size; comma = ",") {
      const prosody_entry *e = (const prosody_entry *)(s.buffer + here);
      const char *value = (const char *)(e + 1);
      int length = e->value_size == PROSODY_NULL_SIZE ? 0 : (int)e->value_size;
      at += (size_t)snprintf(out + at, capacity - at, "%s%s", comma, keys && values ? "[" : "");
      if (keys)
        at += (size_t)snprintf(out + at, capacity - at, "\"%.*s\"%s", (int)e->key_size,
                               value + length, values ? "," : "");
      if (values) at += (size_t)snprintf(out + at, capacity - at, "%.*s", length, value);
      if (keys && values) at += (size_t)snprintf(out + at, capacity - at, "]");
      here += e->size;
    }
  }
  prosody_scan_close(scan);
  snprintf(out + at, capacity - at, "]");
  return PROSODY_OK;
}

enum { NOTHING, JSON, TEXT, YES, NUMBER, OUTCOME, WRITTEN, RECORD }; /* what a command gives */

/* Runs a command on a collection; what it gives is in the buffer, or in `out`. */
static prosody_status collection(const event *e, uint64_t state, const char *command,
                                 const char *rest, int *gives, char *out, size_t capacity) {
  prosody_error error = {.size = sizeof error};
  const char *space = strchr(rest, ' ');
  prosody_item item = {.size = sizeof item, .json = bytes(rest)};
  int64_t number = 0;
  prosody_status status;
#define IS(name) (strcmp(command, name) == 0)
  *gives = NOTHING;
  if (IS("set")) return CALL(prosody_value_set, &item);
  if (IS("clear")) return ACT(prosody_state_clear);
  if (IS("remove")) return CALL(prosody_map_remove, bytes(rest));
  if (IS("add")) return CALL(prosody_set_add, bytes(rest));
  if (IS("discard")) return CALL(prosody_set_remove, bytes(rest));
  if (IS("push")) return CALL(prosody_deque_push, PROSODY_BACK, &item);
  if (IS("unshift")) return CALL(prosody_deque_push, PROSODY_FRONT, &item);
  if (IS("put")) {
    item.json = bytes(space + 1);
    return CALL(prosody_map_set, ((prosody_bytes){rest, (size_t)(space - rest)}), &item);
  }
  if (IS("keep")) {
    item.json = (prosody_bytes){NULL, 0};
    item.topic = bytes(TOPIC), item.partition = e->partition, item.offset = e->offset;
    return CALL(prosody_value_set, &item);
  }
  *gives = OUTCOME;
  if (IS("commit")) return ACT(prosody_state_commit);
  if (IS("rollback")) return ACT(prosody_state_rollback);
  *gives = YES;
  if (IS("has")) return CALL(prosody_state_contains, bytes(rest));
  *gives = WRITTEN;
  if (IS("keys")) return list(state, PROSODY_SCAN_KEYS, 1, 0, out, capacity);
  if (IS("back"))
    return list(state, PROSODY_SCAN_KEYS | PROSODY_SCAN_BACKWARD, 1, 0, out, capacity);
  if (IS("pairs")) return list(state, 0, 1, 1, out, capacity);
  if (IS("members")) return list(state, PROSODY_SCAN_KEYS, 1, 0, out, capacity);
  if (IS("items")) return list(state, 0, 0, 1, out, capacity);
  if (IS("size")) {
    status = CALL(prosody_deque_size, &number);
    if (s.answered == s.tag) number = s.answer.value;
    snprintf(out, capacity, "%" PRId64, number);
    return status;
  }
  *gives = IS("recall") ? RECORD : JSON;
  if (IS("get") || IS("recall")) return CALL(prosody_value_get, ROOM);
  if (IS("at")) return CALL(prosody_map_get, bytes(rest), ROOM);
  if (IS("pop")) return CALL(prosody_deque_pop, PROSODY_BACK, ROOM);
  if (IS("shift")) return CALL(prosody_deque_pop, PROSODY_FRONT, ROOM);
  if (IS("peek")) return CALL(prosody_deque_peek, PROSODY_BACK, ROOM);
  if (IS("item")) return CALL(prosody_deque_get, atoll(rest), ROOM);
  fail("unknown command", command);
  return PROSODY_OK;
}

/* What a command that reads has found, as text. */
static void found(int gives, prosody_status status, char *out, size_t capacity) {
  prosody_message message;
  switch (gives) {
  case OUTCOME:
    snprintf(out, capacity, status == PROSODY_OK ? "applied" : "no_op");
    return;
  case YES:
    snprintf(out, capacity, status == PROSODY_OK ? "true" : "false");
    return;
  case WRITTEN:
    return;
  case RECORD:
    must("message", prosody_message_decode((const prosody_record *)s.buffer, &message));
    script_of(message.payload, out, capacity);
    return;
  default:
    snprintf(out, capacity, "%.*s", status == PROSODY_ABSENT ? 4 : (int)s.size,
             status == PROSODY_ABSENT ? "null" : s.buffer);
  }
}

static void state_command(const event *e, const char *text, const char *command, const char *name,
                          const char *rest) {
  prosody_error error = {.size = sizeof error};
  prosody_collection which = {.size = sizeof which, .kind = kind_of(command, name)};
  uint64_t state;
  int gives = NOTHING;
  char out[900] = "";
  which.name = bytes(name);
  if (strcmp(name, "last") == 0) which.payload = PROSODY_PAYLOAD_MESSAGE;
  prosody_status status = prosody_state_bind(e->invocation, &which, &state, &error);
  s.answered = 0;
  if (status == PROSODY_OK) status = collection(e, state, command, rest, &gives, out, sizeof out);
  if (status >= PROSODY_ERR_ARGUMENT) {
    note(e->key, "%s -> error %s", text, status >= 400 ? "permanent" : "transient");
  } else if (gives == NOTHING) {
    note(e->key, "%s", text);
  } else {
    found(gives, status, out, sizeof out);
    note(e->key, "%s -> %s", text, out);
  }
}

static void scheduled(const event *e) {
  prosody_error error = {.size = sizeof error};
  int64_t seconds[64];
  size_t count = 0, at;
  char out[512] = "[";
  must("scheduled",
       settle(prosody_timer_list(e->invocation, s.queue, ++s.tag, seconds, 64, &count, &error), 0));
  if (s.answered == s.tag) {
    count = (size_t)s.answer.value;
    memcpy(seconds, s.data, count * sizeof *seconds);
  }
  for (at = 0; at < count; at++)
    snprintf(out + strlen(out), 32, "%s%" PRId64, at > 0 ? "," : "", seconds[at] - s.began);
  note(e->key, "scheduled -> %s]", out);
}

static void timer_command(const event *e, const char *command, const char *second) {
  prosody_error error = {.size = sizeof error};
  if (strcmp(second, "all") == 0) {
    must(command, prosody_timer_clear(e->invocation, NULL, 0, 0, &error));
    note(e->key, "%s all", command);
    return;
  }
  int64_t due = s.began + atoll(second);
  int lasting = strcmp(command, "lasting") == 0;
  uint32_t flags = lasting                           ? PROSODY_TIMER_IMMEDIATE
                   : strcmp(command, "replace") == 0 ? PROSODY_TIMER_CLEAR
                                                     : 0;
  s.tag++;
  prosody_status status =
      strcmp(command, "unschedule") == 0
          ? prosody_timer_unschedule(e->invocation, s.queue, s.tag, due, flags, &error)
          : prosody_timer_schedule(e->invocation, s.queue, s.tag, due, flags, &error);
  must(command, settle(status, 0));
  note(e->key, "%s +%s", command, second);
}

/* ---- Handlers -------------------------------------------------------------------------------- */

static void complete(const event *e, int32_t result, const char *response) {
  prosody_outcome outcome = {.size = sizeof outcome, .result = result, .invocation = e->invocation};
  if (response != NULL) outcome.response = bytes(response);
  if (result != PROSODY_RESULT_SUCCESS) outcome.error_text = bytes("as the script wants");
  note(e->key, "%s",
       result == PROSODY_RESULT_SUCCESS     ? "ok"
       : result == PROSODY_RESULT_PERMANENT ? "failed permanent"
                                            : "failed transient");
  must("complete", prosody_complete(&outcome, 1, NULL));
}

static int attempt_of(const event *e) {
  for (int i = 0; i < s.seen_count; i++)
    if (s.seen[i].id == e->id && strcmp(s.seen[i].key, e->key) == 0) return ++s.seen[i].attempts;
  if (s.seen_count == EVENTS) fail(e->key, "too many events");
  strcpy(s.seen[s.seen_count].key, e->key);
  s.seen[s.seen_count].id = e->id;
  return s.seen[s.seen_count++].attempts = 1;
}

static void hang(event e, int linger) {
  e.linger = linger;
  s.hanging[s.hang_count++] = e;
}

static void play(event e) {
  char script[sizeof e.script], response[256] = "";
  int attempt = attempt_of(&e);
  note(e.key, "%s %s %" PRIu32 "%s", e.kind, e.flags & PROSODY_FLAG_FAILURE ? "failure" : "normal",
       e.retry, e.flags & PROSODY_FLAG_RESPONSE ? " asked" : "");
  strcpy(script, e.script);
  for (char *more, *text = strtok_r(script, ";", &more); text; text = strtok_r(NULL, ";", &more)) {
    char command[32] = "", name[32] = "", *rest;
    int length = 0;
    while (*text == ' ') text++;
    sscanf(text, "%31s %31s %n", command, name, &length);
    rest = text + (length > 0 ? (size_t)length : strlen(text));
    if (strcmp(command, "say") == 0) {
      note(e.key, "%s", text);
    } else if (strcmp(command, "return") == 0) {
      snprintf(response, sizeof response, "%s", text + strlen("return "));
    } else if (strcmp(command, "linger") == 0) {
      hang(e, 1);
      return;
    } else if (strcmp(command, "fail") == 0) {
      if (attempt > atoi(name)) continue;
      if (strcmp(rest, "hang") == 0)
        hang(e, 0);
      else
        complete(&e, *rest == 'p' ? PROSODY_RESULT_PERMANENT : PROSODY_RESULT_TRANSIENT, NULL);
      return;
    } else if (strcmp(command, "scheduled") == 0) {
      scheduled(&e);
    } else if (strstr("schedule replace lasting unschedule", command) != NULL) {
      timer_command(&e, command, name);
    } else {
      state_command(&e, text, command, name, rest);
    }
  }
  complete(&e, PROSODY_RESULT_SUCCESS, *response ? response : NULL);
}

/* Plays what has come. */
void work(void) {
  while (s.first < s.last) {
    event e = s.waiting[s.first++];
    if (s.first == s.last) s.first = s.last = 0;
    play(e);
  }
  for (int i = 0; i < s.hang_count; i++) {
    if (!s.hanging[i].cancelled) continue;
    event e = s.hanging[i];
    s.hanging[i--] = s.hanging[--s.hang_count];
    note(e.key, "cancelled");
    complete(&e, e.linger ? PROSODY_RESULT_SUCCESS : PROSODY_RESULT_TRANSIENT, NULL);
  }
}
