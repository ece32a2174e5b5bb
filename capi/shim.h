/* What the C files of the library share with each other and with Go. Nothing here is exported. */
#ifndef PROSODY_SHIM_H
#define PROSODY_SHIM_H

#include <stdatomic.h>
#include <stdint.h>

#include "prosody.h"

/* Calls on collections that differ in nothing but what they do. */
enum { SHIM_COMMIT, SHIM_ROLLBACK, SHIM_CLEAR, SHIM_EMPTY };
enum { SHIM_REMOVE, SHIM_ADD, SHIM_DISCARD };

/* The descriptor of a queue. It is closed when the queue and all who wait for it have left. */
typedef struct shim_gate {
  _Atomic int users;
  int descriptor;
} shim_gate;

/* Makes a gate with one user; NULL when there is no memory. */
shim_gate *shim_gate_new(int descriptor);
void shim_gate_enter(shim_gate *gate);
void shim_gate_leave(shim_gate *gate);

/* Tells whether this is a forked child. */
int shim_forked(void);

/* Fills an error and gives its status. Takes no error, and one whose size is wrong. */
prosody_status shim_fail(prosody_error *error, prosody_status status, const char *text,
                         size_t size);

int32_t shim_category(prosody_status status);

/* The checks and the poll of a dispatch. */
prosody_status shim_dispatchable(prosody_queue *queue, const prosody_handler *handler,
                                 int32_t timeout_ms, prosody_error *error);
prosody_status shim_take(prosody_queue *queue, void *buffer, size_t capacity, uint32_t limit,
                         int32_t timeout_ms, size_t *size, uint32_t *count, prosody_error *error);

/* The span that a thread has entered; none when parent_size is 0. */
typedef struct shim_span {
  uint32_t parent_size;
  uint32_t state_size;
  char parent[128];
  char state[512];
} shim_span;

/* Not 0 once a thread of the process has entered a span. */
extern int32_t shim_traced;

/* The span of the calling thread; NULL when it never entered one. */
const shim_span *shim_entered(void);

/* The environment as it is now. */
char **shim_environ(void);

#endif
