/* A whole service: it handles the records of its topics until SIGINT or SIGTERM, then leaves the
   group cleanly. Its options come from the environment, for example:

   PROSODY_BOOTSTRAP_SERVERS=localhost:9094 PROSODY_GROUP_ID=orders \
   PROSODY_SUBSCRIBED_TOPICS=orders PROSODY_CASSANDRA_NODES=localhost:9042 ./consumer */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prosody.h"

enum { TAG_CREATE = 1, TAG_SUBSCRIBE, TAG_SHUTDOWN };

typedef struct service {
  prosody_queue *queue;
  prosody_client *client;
  int leaving; /* the shutdown has begun */
  int over;
  int failed;
} service;

static int signals[2]; /* a pipe from the signal handler to the loop */

static void on_signal(int number) {
  int saved = errno;
  char byte = (char)number;
  ssize_t ignored = write(signals[1], &byte, 1);
  (void)ignored;
  errno = saved;
}

static void print(prosody_bytes text) { fwrite(text.data, 1, text.size, stdout); }

static prosody_bytes text(const char *from) {
  prosody_bytes bytes = {from, strlen(from)};
  return bytes;
}

/* Ends an event. PROSODY_RESULT_TRANSIENT would ask for another try, PROSODY_RESULT_PERMANENT
   would give it up. */
static void end(uint64_t invocation, int32_t result, const char *why) {
  prosody_outcome outcome = {.size = sizeof outcome, .result = result, .invocation = invocation};
  if (why != NULL) outcome.error_text = text(why);
  prosody_complete(&outcome, 1, NULL); /* fails only when the event is not ours any more */
}

static void on_message(void *user_data, const prosody_message *message) {
  (void)user_data;
  printf("message ");
  print(message->topic);
  printf("/%" PRId32 "@%" PRId64 " ", message->partition, message->offset);
  print(message->key);
  printf(" ");
  print(message->payload);
  printf("\n");
  for (uint32_t i = 0; i < message->headers_count; i++) {
    prosody_bytes name, value;
    if (prosody_message_header(message, i, &name, &value) != PROSODY_OK) continue;
    printf("  header ");
    print(name);
    if (value.data != NULL) printf(", %zu bytes", value.size);
    printf("\n");
  }
  end(message->invocation, PROSODY_RESULT_SUCCESS, NULL);
}

static void on_excise(void *user_data, const prosody_message *message) {
  (void)user_data;
  printf("excise ");
  print(message->key);
  printf("\n");
  end(message->invocation, PROSODY_RESULT_SUCCESS, NULL);
}

static void on_timer(void *user_data, const prosody_timer *timer) {
  (void)user_data;
  printf("timer ");
  print(timer->key);
  printf(" %" PRId64 "\n", timer->second);
  end(timer->invocation, PROSODY_RESULT_SUCCESS, NULL);
}

static void shut_down(service *s) {
  if (s->leaving) return;
  s->leaving = 1;
  if (prosody_client_shutdown(s->client, s->queue, TAG_SHUTDOWN, NULL) != PROSODY_PENDING)
    s->over = 1;
}

static void on_completion(void *user_data, const prosody_completion *completion) {
  service *s = user_data;
  if (completion->status != PROSODY_OK) {
    s->failed = 1;
    fprintf(stderr, "%s: %.*s\n", prosody_status_name(completion->status),
            (int)completion->text.size, (const char *)completion->text.data);
  }
  if (completion->tag == TAG_SHUTDOWN)
    s->over = 1;
  else if (completion->status != PROSODY_OK)
    shut_down(s);
  else if (completion->tag == TAG_SUBSCRIBE)
    printf("running\n");
}

static void on_log(void *user_data, const prosody_log *line) {
  (void)user_data;
  const char *level = line->level >= 40 ? "ERROR" : line->level >= 30 ? "WARN" : "INFO";
  fprintf(stderr, "%s %.*s: %.*s %.*s\n", level, (int)line->target.size,
          (const char *)line->target.data, (int)line->text.size, (const char *)line->text.data,
          (int)line->fields.size, (const char *)line->fields.data);
}

static void on_fatal(void *user_data, prosody_bytes why) {
  service *s = user_data;
  fprintf(stderr, "fatal: %.*s\n", (int)why.size, (const char *)why.data);
  s->failed = s->over = 1; /* the library refuses work: let the supervisor start us anew */
}

static void watch(int number) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK | SA_RESTART; /* the runtime of Go needs SA_ONSTACK */
  sigaction(number, &action, NULL);
}

/* Waits for records and signals until the service is over. */
static void run(service *s) {
  prosody_handler handler = {.size = sizeof handler,
                             .user_data = s,
                             .on_message = on_message,
                             .on_excise = on_excise,
                             .on_timer = on_timer,
                             .on_completion = on_completion,
                             .on_log = on_log,
                             .on_fatal = on_fatal};
  struct pollfd waits[2] = {{.fd = prosody_queue_fd(s->queue), .events = POLLIN},
                            {.fd = signals[0], .events = POLLIN}};
  while (!s->over) {
    if (poll(waits, 2, -1) < 0 && errno != EINTR) break;
    char byte;
    while (read(signals[0], &byte, 1) == 1) shut_down(s);
    prosody_error error = {.size = sizeof error};
    if (prosody_queue_dispatch(s->queue, &handler, 0, NULL, &error) != PROSODY_OK) {
      fprintf(stderr, "%s\n", error.text);
      s->failed = s->over = 1;
    }
    fflush(stdout);
  }
}

int main(void) {
  service s = {0};
  prosody_config *config;
  prosody_error error = {.size = sizeof error};
  if (prosody_abi_version() != PROSODY_ABI_VERSION) {
    fprintf(stderr, "this program was made for another version of the library\n");
    return EXIT_FAILURE;
  }
  if (pipe(signals) != 0) return EXIT_FAILURE;
  fcntl(signals[0], F_SETFL, O_NONBLOCK);
  fcntl(signals[1], F_SETFL, O_NONBLOCK);
  watch(SIGINT);
  watch(SIGTERM);

  if (prosody_config_create(&config, &error) != PROSODY_OK ||
      prosody_queue_create(&s.queue, &error) != PROSODY_OK ||
      prosody_client_create(config, s.queue, TAG_CREATE, &s.client, &error) != PROSODY_PENDING ||
      prosody_client_subscribe(s.client, s.queue, TAG_SUBSCRIBE, &error) != PROSODY_PENDING) {
    fprintf(stderr, "%s: %s\n", prosody_status_name(error.status), error.text);
    return EXIT_FAILURE;
  }
  prosody_config_destroy(config);
  run(&s);
  prosody_client_destroy(s.client);
  prosody_queue_destroy(s.queue);
  printf("stopped\n");
  return s.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
