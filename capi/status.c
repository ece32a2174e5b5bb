/* Owns errors, their names and classes, and what a host may ask of the library without Go. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

uint32_t prosody_abi_version(void) { return PROSODY_ABI_VERSION; }

const char *prosody_version(void) { return PROSODY_VERSION; }

const char *prosody_status_name(prosody_status status) {
#define NAME(name)                                                                                 \
  case name:                                                                                       \
    return #name
  switch (status) {
    NAME(PROSODY_OK);
    NAME(PROSODY_PENDING);
    NAME(PROSODY_ABSENT);
    NAME(PROSODY_END);
    NAME(PROSODY_SHORT);
    NAME(PROSODY_ERR_ARGUMENT);
    NAME(PROSODY_ERR_HANDLE);
    NAME(PROSODY_ERR_CONFIG);
    NAME(PROSODY_ERR_STATE);
    NAME(PROSODY_ERR_SETTLED);
    NAME(PROSODY_ERR_CLOSED);
    NAME(PROSODY_ERR_FORKED);
    NAME(PROSODY_ERR_POISONED);
    NAME(PROSODY_ERR_REVOKED);
    NAME(PROSODY_ERR_TIMEOUT);
    NAME(PROSODY_ERR_KAFKA);
    NAME(PROSODY_ERR_STORE);
    NAME(PROSODY_ERR_CANCELLED);
    NAME(PROSODY_ERR_INTERNAL);
    NAME(PROSODY_ERR_UNPUBLISHED);
    NAME(PROSODY_ERR_TOO_LARGE);
    NAME(PROSODY_ERR_INVALID);
    NAME(PROSODY_ERR_EXISTS);
    NAME(PROSODY_ERR_IDENTITY);
    NAME(PROSODY_ERR_UNREGISTERED);
  }
#undef NAME
  return "unknown";
}

int32_t shim_category(prosody_status status) {
  if (status == PROSODY_ERR_POISONED) return PROSODY_CATEGORY_FATAL;
  switch (status / 100) {
  case 1:
    return PROSODY_CATEGORY_USAGE;
  case 2:
    return PROSODY_CATEGORY_CLOSED;
  case 3:
    return PROSODY_CATEGORY_TRANSIENT;
  case 4:
    return PROSODY_CATEGORY_PERMANENT;
  }
  return PROSODY_CATEGORY_NONE;
}

prosody_status shim_fail(prosody_error *error, prosody_status status, const char *text,
                         size_t size) {
  if (error == NULL || error->size < sizeof *error) return status;
  error->status = status;
  error->category = shim_category(status);
  error->text_size = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
  size_t fits = size;
  if (fits > sizeof error->text - 1) {
    fits = sizeof error->text - 1;
    while (fits > 0 && ((unsigned char)text[fits] & 0xC0) == 0x80) fits--; /* whole characters */
  }
  memcpy(error->text, text, fits);
  error->text[fits] = 0;
  return status;
}

shim_gate *shim_gate_new(int descriptor) {
  shim_gate *gate = malloc(sizeof *gate);
  if (gate == NULL) return NULL;
  atomic_init(&gate->users, 1);
  gate->descriptor = descriptor;
  return gate;
}

void shim_gate_enter(shim_gate *gate) { atomic_fetch_add(&gate->users, 1); }

void shim_gate_leave(shim_gate *gate) {
  if (atomic_fetch_sub(&gate->users, 1) != 1) return;
  close(gate->descriptor);
  free(gate);
}

extern char **environ;

char **shim_environ(void) { return environ; }
