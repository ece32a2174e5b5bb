/* Handles that are none, for handles.c. */
#include "test.h"

static host h;
static prosody_error error;
static _Alignas(8) char buffer[1024];

/* Never issued, freed, of another kind, and addresses of all sorts, one in
   the heap of Go among them. */
#define BAD 12
static void *bad[BAD];

static void fill(void *stale, void *foreign) {
  void *list[BAD] = {NULL,
                     stale,
                     foreign,
                     (void *)1,
                     (void *)8,
                     (void *)UINTPTR_MAX,
                     (void *)(UINTPTR_MAX - 7),
                     (void *)0xdeadbeefULL,
                     (void *)0xc000000008ULL,
                     (void *)0xc000100000ULL,
                     buffer,
                     (char *)h.queue + 1};
  memcpy(bad, list, sizeof bad);
}

#define EACH(stale, foreign, call)                                                                 \
  do {                                                                                             \
    fill(stale, foreign);                                                                          \
    for (int i = 0; i < BAD; i++) {                                                                \
      void *x = bad[i];                                                                            \
      error = fresh();                                                                             \
      STATUS(PROSODY_ERR_HANDLE, call);                                                            \
      CHECK(error.status == PROSODY_ERR_HANDLE);                                                   \
      CHECK(error.category == PROSODY_CATEGORY_USAGE);                                             \
      CHECK(error.text_size == strlen(error.text));                                                \
      CHECK(error.text_size > 0);                                                                  \
    }                                                                                              \
  } while (0)

#define DESTROY(stale, foreign, call)                                                              \
  do {                                                                                             \
    fill(stale, foreign);                                                                          \
    for (int i = 0; i < BAD; i++) {                                                                \
      void *x = bad[i];                                                                            \
      call;                                                                                        \
    }                                                                                              \
  } while (0)
