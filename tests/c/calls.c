/* Many calls of each kind leave nothing behind: no handle, no token, no memory. An argument says how
   many: a million is the full size. What a call costs in memory shows in the second half. */
#include "test.h"

#define TOPIC "calls"
#define KEYS 8
#define BATCH 256        /* calls in flight, and calls of one invocation */
#define ROOM (12L << 20) /* what the garbage collector may hold more at the end */
#define TAG_OF_STATE 7

#define RECORD 400      /* bytes of a message */
#define LOG (64L << 20) /* what a partition of mock mode keeps; a million records fill it */

static host h;
static prosody_config *config;
static prosody_admin *admin;
static prosody_reader *reader;
static prosody_error error;
static _Alignas(8) char buffer[1 << 17];
static size_t size;
static uint32_t count;
static int32_t number;
static uint64_t invocation;
static uint64_t value, map, deque, members; /* of the invocation */

static long resident(void) {
  long pages = 0, all = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%ld %ld", &all, &pages) == 2);
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

static void forget(void) {
  for (int i = 0; i < h.events; i++) free(h.keys[i]);
  h.events = h.completions = h.excises = h.timers = h.cancels = h.logs = 0;
}

static prosody_bytes key(long i) {
  static char names[KEYS][4];
  snprintf(names[i % KEYS], sizeof names[0], "k%ld", i % KEYS);
  return bytes(names[i % KEYS]);
}

static prosody_status settle(prosody_status status) {
  if (status != PROSODY_PENDING) return status;
  h.completions = 0;
  return await(&h, TAG_OF_STATE);
}

#define MAYBE(call)                                                                                \
  do {                                                                                             \
    prosody_status came_ = settle(call);                                                           \
    CHECK(came_ == PROSODY_OK || came_ == PROSODY_ABSENT);                                         \
  } while (0)

/* ---- Calls that need nothing ------------------------------------------------------------------ */
static void configuration(long i) {
  prosody_config *made;
  prosody_bytes items[2] = {bytes("a"), bytes("b")};
  (void)i;
  OK(prosody_config_create(&made, NULL));
  set(made, "group_id", "g");
  OK(prosody_config_set_list(made, bytes("subscribed_topics"), items, 2, NULL));
  OK(prosody_config_set_none(made, bytes("timeout"), NULL));
  prosody_config_destroy(made);
}

static void check(long i) {
  (void)i;
  OK(prosody_config_check(config, buffer, sizeof buffer, &size, NULL));
}

static void options(long i) {
  (void)i;
  OK(prosody_options(buffer, sizeof buffer, &size, NULL));
}

static void queue(long i) {
  prosody_queue *made;
  (void)i;
  OK(prosody_queue_create(&made, NULL));
  OK(prosody_queue_wake(made));
  OK(prosody_queue_poll(made, buffer, sizeof buffer, 0, &size, &count, NULL));
  prosody_queue_destroy(made);
}

static void refused(long i) {
  prosody_config *made;
  (void)i;
  OK(prosody_config_create(&made, NULL));
  error = fresh();
  STATUS(PROSODY_ERR_HANDLE, prosody_client_state((prosody_client *)buffer, &number, &error));
  STATUS(PROSODY_ERR_ARGUMENT, prosody_config_set(made, bytes("no_such"), bytes("x"), &error));
  prosody_config_destroy(made);
  STATUS(PROSODY_ERR_HANDLE, prosody_should_cancel(0x123456789abcULL));
}

/* ---- Calls of a client ------------------------------------------------------------------------ */
static void asks(long i) {
  (void)i;
  OK(prosody_client_state(h.client, &number, NULL));
  OK(prosody_client_partitions(h.client, &count, NULL));
  OK(prosody_client_stalled(h.client, &number, NULL));
  OK(prosody_client_source(h.client, buffer, sizeof buffer, &size, NULL));
}

static void statistics(long i) {
  (void)i;
  OK(prosody_client_stats(h.client, buffer, sizeof buffer, &size, NULL));
}

static void settle_batch(long i) {
  if (i % BATCH != BATCH - 1) return;
  UNTIL(&h, h.completions == BATCH && h.events == BATCH);
  forget();
}

static void sends(long i) {
  static char text[RECORD];
  memset(text, '1', sizeof text); /* a number is JSON */
  PENDING(send_record(h.client, h.queue, 5, TOPIC, key(i), sized(text, sizeof text)));
  settle_batch(i);
}

static void excises(long i) {
  PENDING(send_record(h.client, h.queue, 5, TOPIC, key(i), bytes(NULL)));
  settle_batch(i);
}

/* Each record fails once. */
static void failures(long i) {
  h.result = PROSODY_RESULT_PERMANENT;
  sends(i);
  h.result = PROSODY_RESULT_SUCCESS;
}

static void rejected(long i) {
  (void)i;
  STATUS(PROSODY_ERR_INVALID,
         send_record(h.client, h.queue, 5, TOPIC, bytes("k"), bytes("no JSON")));
}

static void clients(long i) {
  prosody_client *made;
  (void)i;
  PENDING(prosody_client_create(config, h.queue, 11, &made, NULL));
  OK(await(&h, 11));
  PENDING(prosody_client_shutdown(made, h.queue, 12, NULL));
  OK(await(&h, 12));
  prosody_client_destroy(made);
  forget();
}

static void subscriptions(long i) {
  (void)i;
  PENDING(prosody_client_unsubscribe(h.client, h.queue, 11, NULL));
  OK(await(&h, 11));
  PENDING(prosody_client_subscribe(h.client, h.queue, 12, NULL));
  OK(await(&h, 12));
  forget();
}

static void topics(long i) {
  prosody_topic topic = {.size = sizeof topic, .partitions = 1, .name = bytes("passing")};
  (void)i;
  PENDING(prosody_admin_create_topic(admin, h.queue, 11, &topic, NULL));
  OK(await(&h, 11));
  PENDING(prosody_admin_delete_topic(admin, h.queue, 12, topic.name, NULL));
  OK(await(&h, 12));
  forget();
}

static void admins(long i) {
  prosody_admin *made;
  (void)i;
  OK(prosody_admin_create(config, &made, NULL));
  prosody_admin_destroy(made);
}

static void clock_moves(long i) {
  (void)i;
  OK(prosody_mock_advance(bytes("embedded:1"), 1, NULL));
}

static void readers(long i) {
  prosody_reader *made;
  prosody_collection wanted = {
      .size = sizeof wanted, .kind = PROSODY_KIND_VALUE, .name = bytes("v"), .read_cache_ms = -1};
  (void)i;
  OK(prosody_reader_open(h.client, bytes(TOPIC), &wanted, &made, NULL));
  prosody_reader_destroy(made);
}

static void published(long i) {
  uint64_t state;
  OK(prosody_reader_bind(reader, key(i), &state, NULL));
  MAYBE(prosody_value_get(state, h.queue, TAG_OF_STATE, buffer, sizeof buffer, &size, NULL));
  prosody_state_release(state);
}

/* ---- Calls of an invocation ------------------------------------------------------------------- */
static uint64_t bind(int32_t kind, const char *name) {
  prosody_collection wanted = {.size = sizeof wanted, .kind = kind, .name = bytes(name)};
  uint64_t state;
  OK(prosody_state_bind(invocation, &wanted, &state, NULL));
  return state;
}

static void begin(void) {
  forget();
  h.hold = 1;
  PENDING(send_record(h.client, h.queue, 5, TOPIC, bytes("k0"), bytes("1")));
  UNTIL(&h, h.events == 1 && h.completions == 1);
  invocation = h.invocations[0];
  forget();
  value = bind(PROSODY_KIND_VALUE, "v");
  map = bind(PROSODY_KIND_MAP, "m");
  deque = bind(PROSODY_KIND_DEQUE, "d");
  members = bind(PROSODY_KIND_SET, "s");
}

static void finish(void) {
  OK(end(invocation, PROSODY_RESULT_SUCCESS));
  STATUS(PROSODY_ERR_SETTLED, end(invocation, PROSODY_RESULT_SUCCESS));
  h.hold = 0;
}

static void cancelled(long i) {
  (void)i;
  OK(prosody_should_cancel(invocation));
}

static void timers(long i) {
  int64_t second = 4000000000LL + i % KEYS, seconds[KEYS];
  OK(prosody_timer_schedule(invocation, NULL, 0, second, 0, NULL));
  MAYBE(prosody_timer_list(invocation, h.queue, TAG_OF_STATE, seconds, KEYS, &size, NULL));
  OK(prosody_timer_unschedule(invocation, NULL, 0, second, 0, NULL));
  OK(prosody_timer_clear(invocation, NULL, 0, 0, NULL));
}

#define AT h.queue, TAG_OF_STATE

static void values(long i) {
  prosody_item item = {.size = sizeof item, .json = bytes("{\"n\":1}")};
  (void)i;
  CHECK(bind(PROSODY_KIND_VALUE, "v") == value);
  MAYBE(prosody_value_set(value, AT, &item, NULL));
  MAYBE(prosody_value_get(value, AT, buffer, sizeof buffer, &size, NULL));
  MAYBE(prosody_state_rollback(value, AT, NULL));
}

static void maps(long i) {
  prosody_item item = {.size = sizeof item, .json = bytes("1")};
  prosody_bytes two[2] = {key(0), key(1)};
  uint8_t found[2];
  MAYBE(prosody_map_set(map, AT, key(i), &item, NULL));
  MAYBE(prosody_map_get(map, AT, key(i), buffer, sizeof buffer, &size, NULL));
  MAYBE(prosody_map_get_many(map, AT, two, 2, buffer, sizeof buffer, &size, NULL));
  MAYBE(prosody_state_contains_many(map, AT, two, 2, found, NULL));
  MAYBE(prosody_map_remove(map, AT, key(i + 1), NULL));
  MAYBE(prosody_state_empty(map, AT, NULL));
}

static void sets(long i) {
  MAYBE(prosody_set_add(members, AT, key(i), NULL));
  MAYBE(prosody_state_contains(members, AT, key(i + 1), NULL));
  MAYBE(prosody_set_remove(members, AT, key(i), NULL));
}

static void deques(long i) {
  prosody_item item = {.size = sizeof item, .json = bytes("1")};
  int64_t length;
  MAYBE(prosody_deque_push(deque, AT, i % 2 ? PROSODY_FRONT : PROSODY_BACK, &item, NULL));
  MAYBE(prosody_deque_size(deque, AT, &length, NULL));
  MAYBE(prosody_deque_get(deque, AT, 0, buffer, sizeof buffer, &size, NULL));
  MAYBE(prosody_deque_peek(deque, AT, PROSODY_BACK, buffer, sizeof buffer, &size, NULL));
  MAYBE(prosody_deque_pop(deque, AT, PROSODY_FRONT, buffer, sizeof buffer, &size, NULL));
}

static void scans(long i) {
  uint64_t scan;
  OK(prosody_scan_open(i % 2 ? map : members, NULL, &scan, NULL));
  if (i % 3 == 0) {
    prosody_status status;
    do {
      status = settle(prosody_scan_next(scan, AT, buffer, sizeof buffer, &size, &count, NULL));
    } while (status == PROSODY_OK);
    STATUS(PROSODY_END, status);
  }
  prosody_scan_close(scan);
}

static void commits(long i) {
  prosody_item item = {.size = sizeof item, .json = bytes(i % 2 ? "1" : "2")};
  MAYBE(prosody_value_set(value, AT, &item, NULL));
  MAYBE(prosody_state_commit(value, AT, NULL));
}

/* ---- The table -------------------------------------------------------------------------------- */
static const struct kind {
  const char *name;
  void (*call)(long);
  int share;  /* one call for so many of the others */
  int inside; /* needs an invocation */
} kinds[] = {
    {"configuration", configuration, 4, 0},
    {"check", check, 4, 0},
    {"options", options, 50, 0},
    {"queue", queue, 1, 0},
    {"refused", refused, 4, 0},
    {"asks", asks, 1, 0},
    {"statistics", statistics, 20, 0},
    {"sends", sends, 1, 0},
    {"excises", excises, 1, 0},
    {"failures", failures, 4, 0},
    {"rejected", rejected, 1, 0},
    {"clients", clients, 200, 0},
    {"subscriptions", subscriptions, 200, 0},
    {"topics", topics, 20, 0},
    {"admins", admins, 20, 0},
    {"clock_moves", clock_moves, 20, 0},
    {"readers", readers, 4, 0},
    {"published", published, 4, 0},
    {"cancelled", cancelled, 1, 1},
    {"timers", timers, 1, 1},
    {"values", values, 1, 1},
    {"maps", maps, 1, 1},
    {"sets", sets, 1, 1},
    {"deques", deques, 1, 1},
    {"scans", scans, 4, 1},
    {"commits", commits, 20, 1},
};

static void run(const struct kind *kind, long calls) {
  for (long i = 0; i < calls; i++) {
    if (kind->inside && i % BATCH == 0) begin();
    kind->call(i);
    if (kind->inside && (i % BATCH == BATCH - 1 || i == calls - 1)) finish();
  }
}

static void compare(const char *name, const char *what, long expected) {
  int64_t limit = now_ms() + 20000; /* what is freed in the background */
  while (left(h.client, what) != expected && now_ms() < limit) host_step(&h, 10);
  if (left(h.client, what) != expected)
    fprintf(stderr, "%s: %ld of %s, not %ld\n", name, left(h.client, what), what, expected);
  CHECK(left(h.client, what) == expected);
}

static void measure(const struct kind *kind, long calls) {
  int64_t began = now_ms();
  long half = (calls / kind->share / 2 + BATCH) / BATCH * BATCH;
  if (kind->share > 4) half = calls / kind->share / 2 + 1;
  run(kind, half);
  long before = resident();
  run(kind, half);
  long grown = resident() - before;
  printf("%-14s %8ld calls %6" PRId64 " ms, %+6ld KiB in the second half\n", kind->name, 2 * half,
         now_ms() - began, grown / 1024);
  fflush(stdout);
  CHECK(grown < ROOM + (half < LOG / RECORD ? half * 1200 : 0));
  compare(kind->name, "queue", 1);
  compare(kind->name, "client", 1);
  compare(kind->name, "config", 1);
  compare(kind->name, "admin", 1);
  compare(kind->name, "reader", 1);
  compare(kind->name, "invocations", 0);
  compare(kind->name, "states", 0);
  forget();
}

int main(int arguments, char **argument) {
  long calls = arguments > 1 ? atol(argument[1]) : 4000;
  config = mock_config(TOPIC);
  set(config, "mode", "pipeline");
  set(config, "subsystem", TOPIC);
  set(config, "state_collections",
      "[{\"name\":\"v\",\"kind\":\"value\",\"published\":true,\"read_cache\":false},"
      "{\"name\":\"m\",\"kind\":\"map\"},{\"name\":\"d\",\"kind\":\"deque\"},"
      "{\"name\":\"s\",\"kind\":\"set\"}]");
  host_init(&h);
  OK(prosody_admin_create(config, &admin, NULL));
  prosody_topic topic = {.size = sizeof topic, .partitions = 1, .name = bytes(TOPIC)};
  PENDING(prosody_admin_create_topic(admin, h.queue, 3, &topic, NULL));
  OK(await(&h, 3));
  host_client(&h, config);
  PENDING(prosody_client_subscribe(h.client, h.queue, 2, NULL));
  OK(await(&h, 2));
  prosody_collection wanted = {
      .size = sizeof wanted, .kind = PROSODY_KIND_VALUE, .name = bytes("v"), .read_cache_ms = -1};
  OK(prosody_reader_open(h.client, bytes(TOPIC), &wanted, &reader, NULL));
  forget();

  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (arguments > 2 && strcmp(argument[2], kinds[i].name) != 0) continue;
    measure(&kinds[i], calls);
  }

  prosody_reader_destroy(reader);
  prosody_admin_destroy(admin);
  prosody_config_destroy(config);
  PENDING(prosody_client_shutdown(h.client, h.queue, 99, NULL));
  OK(await(&h, 99));
  prosody_client_destroy(h.client);
  host_free(&h);
  return 0;
}
