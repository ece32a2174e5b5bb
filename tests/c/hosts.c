/* A host that has its handlers before it loads the library keeps them, also for the signals that
   the Go runtime takes; so does one that sets them afterwards. A path, a link to it and a second
   load are one library. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prosody.h"

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "hosts.c:%d: not true: %s\n", __LINE__, #condition);                         \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGPIPE, SIGPROF, SIGSEGV};
#define NUMBERS (sizeof numbers / sizeof *numbers)

static volatile sig_atomic_t before[65], after[65];
static sigjmp_buf rescue;
static volatile sig_atomic_t stop;
static prosody_status (*options)(void *, size_t, size_t *, prosody_error *);
static prosody_status (*fix)(void);

static void first(int number) {
  before[number]++;
  if (number == SIGSEGV) siglongjmp(rescue, 1);
}

static void second(int number) {
  after[number]++;
  if (number == SIGSEGV) siglongjmp(rescue, 1);
}

static void install(void (*handler)(int)) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler; /* without SA_ONSTACK, as a careless host does */
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < NUMBERS; i++) CHECK(sigaction(numbers[i], &action, NULL) == 0);
}

/* Each signal reaches the host's handler, by kill, by a fault and by a broken pipe. */
static void each(volatile sig_atomic_t *seen) {
  for (size_t i = 0; i < NUMBERS; i++) {
    int number = numbers[i], count = seen[number];
    if (number == SIGSEGV) {
      volatile int *nowhere = NULL;
      if (sigsetjmp(rescue, 1) == 0) *nowhere = 1;
    } else if (number == SIGPIPE) {
      int ends[2];
      CHECK(pipe(ends) == 0);
      close(ends[0]);
      CHECK(write(ends[1], "x", 1) == -1 && errno == EPIPE);
      close(ends[1]);
    } else {
      CHECK(kill(getpid(), number) == 0);
    }
    CHECK(seen[number] > count);
  }
}

static void *inside(void *argument) {
  static char buffer[1 << 17];
  size_t size;
  (void)argument;
  while (!stop) CHECK(options(buffer, sizeof buffer, &size, NULL) == PROSODY_OK);
  return NULL;
}

/* The library's code is mapped once. */
static int mapped(void) {
  char line[4352];
  int found = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL)
    found += strstr(line, "libprosody.so") != NULL && strstr(line, " r-xp ") != NULL;
  fclose(maps);
  return found;
}

static void *open_library(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL);
  return library;
}

int main(void) {
  char path[4096], other[64] = "/tmp/prosody-hosts-XXXXXX", link[128];
  const char *folder = getenv("TEST_LIB");
  CHECK(folder != NULL && mkdtemp(other) != NULL);
  snprintf(path, sizeof path, "%s/libprosody.so", folder);
  snprintf(link, sizeof link, "%s/libprosody.so", other);
  CHECK(symlink(path, link) == 0);

  CHECK(mapped() == 0);
  install(first);
  void *library = open_library(path);
  *(void **)&options = dlsym(library, "prosody_options");
  *(void **)&fix = dlsym(library, "prosody_signals_fix");
  CHECK(options != NULL && fix != NULL);

  CHECK(open_library(link) == library);
  CHECK(mapped() == 1);
  unlink(link);
  rmdir(other);
  CHECK(dlclose(library) == 0 && dlclose(library) == 0);
  CHECK(mapped() == 1);
  CHECK(open_library(path) == library);

  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, inside, NULL) == 0);
  for (int i = 0; i < 200; i++) each(before);
  install(second);
  CHECK(fix() == PROSODY_OK);
  for (size_t i = 0; i < NUMBERS; i++) before[numbers[i]] = 0;
  for (int i = 0; i < 200; i++) each(after);
  for (size_t i = 0; i < NUMBERS; i++) CHECK(before[numbers[i]] == 0);
  stop = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  return 0;
}
