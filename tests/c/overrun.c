/* What the tools have to notice: a host, or the library for it, leaves a block of malloc. */
#include "test.h"

int main(int count, char **args) {
  host h;
  size_t size;
  (void)args;
  host_init(&h);
  prosody_config *config = mock_config("overrun");
  host_client(&h, config);
  volatile char *source = malloc(3);
  if (count > 1)
    source[3] = 'x';
  else
    OK(prosody_client_source(h.client, (char *)source, 64, &size, NULL)); /* 5 bytes */
  free((char *)source);
  prosody_client_destroy(h.client);
  prosody_config_destroy(config);
  host_free(&h);
  return 0;
}
