/* Owns what has to happen before and beside the Go runtime: the mask that its threads inherit,
   the mark of a forked child, and the alternate stack of the host's signal handlers. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "shim.h"

static sigset_t before;
static atomic_int forked;

/* Blocks signals while the Go runtime starts, which it does between the two constructors: its
   threads keep the mask, so that handlers of the host do not run on them. SIGURG stays open: Go
   sends it to its own threads. Go also opens SIGPROF and SIGCHLD; their handlers run on the stack
   for signals. */
__attribute__((constructor(101))) static void shut(void) {
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGURG);
  pthread_sigmask(SIG_SETMASK, &all, &before);
}

static void child(void) { atomic_store_explicit(&forked, 1, memory_order_relaxed); }

__attribute__((constructor)) static void reopen(void) {
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_atfork(NULL, NULL, child);
}

int shim_forked(void) { return atomic_load_explicit(&forked, memory_order_relaxed); }

prosody_status prosody_signals_fix(void) {
  if (shim_forked()) return PROSODY_ERR_FORKED;
  int saved = errno;
  for (int number = 1; number <= 64; number++) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) != 0) continue;
    if (action.sa_flags & SA_ONSTACK) continue;
    if (!(action.sa_flags & SA_SIGINFO) &&
        (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN))
      continue;
    action.sa_flags |= SA_ONSTACK;
    sigaction(number, &action, NULL);
  }
  errno = saved;
  return PROSODY_OK;
}
