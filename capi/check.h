/* What the public functions check before they enter Go. */
#ifndef PROSODY_CHECK_H
#define PROSODY_CHECK_H

#include "shim.h"

#define LARGEST ((size_t)1 << 30)
#define FURTHEST ((int64_t)100 * 366 * 24 * 3600 * 1000)

static inline prosody_status refuse(prosody_error *error, prosody_status status, const char *text) {
  size_t size = 0;
  while (text[size] != 0) size++;
  return shim_fail(error, status, text, size);
}

static inline prosody_status forked(prosody_error *error) {
  return refuse(error, PROSODY_ERR_FORKED,
                "this process is a forked child: create clients after the fork");
}

static inline prosody_status handle(prosody_error *error) {
  return refuse(error, PROSODY_ERR_HANDLE, "the handle is NULL");
}

/* The order counts: an error of unknown size is not written to. */
#define ENTER(error)                                                                               \
  do {                                                                                             \
    if (shim_forked()) return forked(error);                                                       \
    if ((error) != NULL && (error)->size < sizeof *(error)) return PROSODY_ERR_ARGUMENT;           \
  } while (0)

#define NEED(condition, text)                                                                      \
  do {                                                                                             \
    if (!(condition)) return refuse(error, PROSODY_ERR_ARGUMENT, text);                            \
  } while (0)

#define HANDLE(pointer)                                                                            \
  do {                                                                                             \
    if ((pointer) == NULL) return handle(error);                                                   \
  } while (0)

#define RAW(pointer) ((uintptr_t)(pointer))

/* An address for empty bytes, so that none that the host made up reaches Go. */
static const char nothing[1];

/* Tells whether bytes can be read, and gives empty ones an address of ours. */
static inline int readable(prosody_bytes *bytes) {
  if (bytes->size > LARGEST) return 0;
  if (bytes->data == NULL) return bytes->size == 0;
  if (bytes->size == 0) bytes->data = nothing;
  return 1;
}

#define READABLE(bytes, name) NEED(readable(&(bytes)), name ": NULL with a size, or over 1 GiB")

/* The same for a buffer to write to. */
static inline int writable(void **buffer, size_t *capacity) {
  if (*buffer == NULL && *capacity > 0) return 0;
  if (*capacity > LARGEST) *capacity = LARGEST;
  if (*capacity == 0) *buffer = NULL;
  return 1;
}

#define WRITABLE(buffer, capacity)                                                                 \
  do {                                                                                             \
    NEED(size != NULL, "size: NULL");                                                              \
    NEED(writable(&(buffer), &(capacity)), "buffer: NULL with a capacity");                        \
  } while (0)

#endif
