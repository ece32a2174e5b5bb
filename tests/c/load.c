/* The library loads by name into a bare process, twice is once, and dlclose does nothing. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prosody.h"

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "load.c:%d: %s\n", __LINE__, #condition);                                    \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)

int main(void) {
  char path[4096];
  const char *folder = getenv("TEST_LIB");
  CHECK(folder != NULL);
  snprintf(path, sizeof path, "%s/libprosody.so", folder);
  for (int i = 0; i < 3; i++) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    CHECK(dlopen(path, RTLD_NOW | RTLD_LOCAL) == library);
    prosody_status (*create)(prosody_queue **, prosody_error *);
    void (*destroy)(prosody_queue *);
    *(void **)&create = dlsym(library, "prosody_queue_create");
    *(void **)&destroy = dlsym(library, "prosody_queue_destroy");
    CHECK(create != NULL && destroy != NULL);
    prosody_queue *queue;
    CHECK(create(&queue, NULL) == PROSODY_OK);
    destroy(queue);
    CHECK(dlsym(library, "goQueueCreate") == NULL);
    CHECK(dlclose(library) == 0);
    CHECK(dlclose(library) == 0);
  }
  return 0;
}
