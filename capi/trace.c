/* Owns the span that a thread has entered: memory of the thread, which Go reads. A key of pthread
   holds it, so that it takes no thread-local storage of the library and goes with its thread. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

int32_t shim_traced;

static pthread_key_t key;

__attribute__((constructor)) static void begin(void) {
  if (pthread_key_create(&key, free) != 0) abort();
}

prosody_status prosody_trace_enter(prosody_bytes parent, prosody_bytes state) {
  prosody_error *error = NULL;
  ENTER(error);
  READABLE(parent, "parent");
  READABLE(state, "state");
  shim_span *span = pthread_getspecific(key);
  if (parent.size == 0 || parent.size > sizeof span->parent) {
    if (span != NULL) span->parent_size = 0;
    return PROSODY_OK;
  }
  if (span == NULL) {
    span = calloc(1, sizeof *span);
    if (span == NULL || pthread_setspecific(key, span) != 0) {
      free(span);
      return PROSODY_ERR_INTERNAL;
    }
    __atomic_store_n(&shim_traced, 1, __ATOMIC_RELAXED);
  }
  span->parent_size = (uint32_t)parent.size;
  memcpy(span->parent, parent.data, parent.size);
  span->state_size = state.size > sizeof span->state ? 0 : (uint32_t)state.size;
  if (span->state_size > 0) memcpy(span->state, state.data, span->state_size);
  return PROSODY_OK;
}

const shim_span *shim_entered(void) { return pthread_getspecific(key); }
