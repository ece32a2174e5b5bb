/* What both parts of the C driver share: the scenario that is played. */
#ifndef DRIVER_H
#define DRIVER_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prosody.h"

#define TOPIC "scenarios"
#define LINES 1024
#define EVENTS 256
#define ANSWERS 64

/* An event that came out of the queue; its script runs later, outside of the callback. */
typedef struct event {
  uint64_t invocation;
  char kind[32], key[64], script[1024];
  uint32_t retry, flags;
  int32_t partition;
  int64_t id, offset; /* the offset, or minus the second of a timer */
  int cancelled, linger;
} event;

typedef struct line {
  char key[64], text[1024];
  int place;
} line;

typedef struct scenario {
  char name[64], servers[80], excise[1024], timer[1024];
  char options[16][64];
  int option_count;
  int64_t began;
  prosody_queue *queue;
  prosody_client *client, *other;
  line lines[LINES];
  int line_count;
  event waiting[EVENTS], hanging[EVENTS];
  int first, last, hang_count;
  struct {
    char key[64];
    int64_t id;
    int attempts;
  } seen[EVENTS];
  int seen_count;
  uint64_t tag, answered; /* the last tag that was used, that was answered */
  prosody_status statuses[ANSWERS];
  uint64_t tags[ANSWERS];
  prosody_completion answer;
  _Alignas(8) char data[1 << 16], buffer[1 << 16];
  size_t size;
} scenario;

extern scenario s;

/* driver.c: the queue */
void fail(const char *what, const char *why) __attribute__((noreturn));
void must(const char *what, prosody_status status);
void note(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));
void copy(char *to, size_t capacity, prosody_bytes from);
prosody_bytes bytes(const char *text);
/* Takes the script out of a payload {"do":"..."}. */
void script_of(prosody_bytes payload, char *script, size_t capacity);
/* The status of a call, after its end; other events run meanwhile when `busy`. */
prosody_status settle(prosody_status status, int busy);

/* script.c: the handlers. Plays the events that have come. */
void work(void);

#endif
