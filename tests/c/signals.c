/* The host's signal handlers and Go's threads get along: handlers that were set before the load
   and after it run, on the host's threads only, while Go is busy and a host thread is inside it. */
#include <dlfcn.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "test.h"

static volatile sig_atomic_t before, after, alarms;
static volatile sig_atomic_t stop;
static host h;

static void count_before(int number) { (void)number, before++; }
static void count_after(int number) { (void)number, after++; }
static void count_alarm(int number) { (void)number, alarms++; }

static void install(int number, void (*handler)(int), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = flags;
  CHECK(sigaction(number, &action, NULL) == 0);
}

/* Counts the threads that leave a signal open. */
static int open_threads(int number) {
  int found = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
    char path[300], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
    FILE *file = fopen(path, "r");
    if (task->d_name[0] == '.' || file == NULL) continue;
    while (fgets(line, sizeof line, file) != NULL) {
      if (strncmp(line, "SigBlk:", 7) == 0)
        found += !(strtoull(line + 7, NULL, 16) >> (number - 1) & 1);
    }
    fclose(file);
  }
  closedir(tasks);
  return found;
}

/* A host thread that is inside the library most of the time. */
static void *inside(void *argument) {
  static _Alignas(8) char buffer[65536];
  size_t size;
  (void)argument;
  while (!stop) {
    prosody_options(buffer, sizeof buffer, &size, NULL);
    prosody_client_stats(h.client, buffer, sizeof buffer, &size, NULL);
  }
  return NULL;
}

int main(int count, char **arguments) {
  install(SIGUSR1, count_before, 0);
  install(SIGINT, count_before, 0);
  host_init(&h); /* the first call; the constructors ran at load */
  prosody_config *config = mock_config("signals");
  host_client(&h, config);
  PENDING(prosody_client_subscribe(h.client, h.queue, 2, NULL));
  OK(await(&h, 2));
  install(SIGUSR2, count_after, 0);
  install(SIGTERM, count_after, 0);
  install(SIGPROF, count_alarm, SA_RESTART);
  signal(SIGPIPE, SIG_IGN);
  if (count == 1) OK(prosody_signals_fix()); /* with an argument the test shows the crash */
  (void)arguments;

  struct sigaction action;
  CHECK(sigaction(SIGUSR2, NULL, &action) == 0);
  if (count == 1) CHECK(action.sa_flags & SA_ONSTACK);
  CHECK(action.sa_handler == count_after);
  CHECK(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_handler == count_before);
  CHECK(sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_IGN);

  /* No thread of the library takes a signal. Go opens SIGPROF and SIGCHLD for itself. */
  const int numbers[] = {SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    CHECK(open_threads(numbers[i]) == 1);

  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, inside, NULL) == 0);
  struct itimerval often = {{0, 200}, {0, 200}};
  setitimer(ITIMER_PROF, &often, NULL);
  pid_t parent = getpid(), pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    for (int i = 0; i < 10000; i++) {
      if (kill(parent, SIGUSR1) != 0 || kill(parent, SIGUSR2) != 0 || kill(parent, SIGPROF) != 0)
        _exit(1);
      if (i % 16 == 0) usleep(50);
    }
    kill(parent, SIGINT);
    kill(parent, SIGTERM);
    _exit(0);
  }
  int sent = 0, status;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (send_record(h.client, h.queue, 5, "signals", bytes(sent % 2 ? "a" : "b"), bytes("{}")) ==
        PROSODY_PENDING)
      sent++;
    host_step(&h, 0);
    if (h.events > MAX_EVENTS - 64) {
      for (int i = 0; i < h.events; i++) free(h.keys[i]);
      sent -= h.events;
      h.events = 0;
    }
    if (h.completions > MAX_EVENTS - 64) h.completions = 0;
  }
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  stop = 1;
  pthread_join(thread, NULL);
  memset(&often, 0, sizeof often);
  setitimer(ITIMER_PROF, &often, NULL);
  CHECK(before > 100 && after > 100 && alarms > 100);

  /* A wait ends by a signal; a broken pipe ends nothing. */
  int ends[2];
  CHECK(pipe(ends) == 0);
  close(ends[0]);
  CHECK(write(ends[1], "x", 1) == -1);
  close(ends[1]);
  h.completions = 0;
  PENDING(prosody_client_shutdown(h.client, h.queue, 9, NULL));
  OK(await(&h, 9));
  prosody_client_destroy(h.client);
  prosody_config_destroy(config);
  host_free(&h);
  return 0;
}
