// A C++ exception leaves a callback: the events behind it in the batch fail and come again.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>

#include "prosody.h"

static void check(bool good, const char *what) {
  if (good) return;
  std::fprintf(stderr, "exception.cpp: not true: %s\n", what);
  std::exit(1);
}
#define CHECK(condition) check(condition, #condition)

static prosody_bytes text(const char *s) { return prosody_bytes{s, std::strlen(s)}; }

static int completed;
static int thrown;
static std::set<std::string> done;

static void on_message(void *, const prosody_message *message) {
  if (thrown == 0) {
    thrown++;
    throw std::runtime_error("left");
  }
  prosody_outcome outcome{};
  outcome.size = sizeof outcome;
  outcome.invocation = message->invocation;
  CHECK(prosody_complete(&outcome, 1, nullptr) == PROSODY_OK);
  done.emplace(static_cast<const char *>(message->key.data), message->key.size);
}

static void on_log(void *, const prosody_log *line) {
  if (std::getenv("TEST_VERBOSE") != nullptr)
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line->text.size),
                 static_cast<const char *>(line->text.data));
}

static void on_completion(void *, const prosody_completion *completion) {
  CHECK(completion->status == PROSODY_OK);
  completed++;
}

int main() {
  prosody_config *config;
  prosody_queue *queue;
  prosody_client *client;
  CHECK(prosody_config_create(&config, nullptr) == PROSODY_OK);
  CHECK(prosody_queue_create(&queue, nullptr) == PROSODY_OK);
  const char *options[][2] = {{"mock", "true"},
                              {"bootstrap_servers", "embedded:1"},
                              {"group_id", "exception"},
                              {"subscribed_topics", "exception"},
                              {"retry_base", "1ms"},
                              {"source_system", "tests"},
                              {"cassandra_nodes", "embedded"},
                              {"max_retry_delay", "2ms"},
                              {"defer_enabled", "false"}};
  for (auto &option : options)
    CHECK(prosody_config_set(config, text(option[0]), text(option[1]), nullptr) == PROSODY_OK);
  CHECK(prosody_client_create(config, queue, 1, &client, nullptr) == PROSODY_PENDING);
  CHECK(prosody_client_subscribe(client, queue, 2, nullptr) == PROSODY_PENDING);

  prosody_handler handler{};
  handler.size = sizeof handler;
  handler.on_message = on_message;
  handler.on_completion = on_completion;
  handler.on_log = on_log;
  uint64_t tag = 3;
  for (const char *key : {"a", "b", "c", "d"}) {
    prosody_outgoing record{};
    record.size = sizeof record;
    record.topic = text("exception");
    record.key = text(key);
    record.payload = text("{}");
    CHECK(prosody_client_send(client, queue, tag++, &record, nullptr) == PROSODY_PENDING);
  }
  // The event whose callback threw was never ended; the test counts the others.
  for (int i = 0; i < 600 && done.size() < 3; i++) {
    try {
      CHECK(prosody_queue_dispatch(queue, &handler, 50, nullptr, nullptr) == PROSODY_OK);
    } catch (const std::runtime_error &) {
      thrown++;
    }
  }
  CHECK(thrown == 2);
  CHECK(done.size() == 3);
  prosody_client_destroy(client);
  prosody_config_destroy(config);
  prosody_queue_destroy(queue);
  return 0;
}
