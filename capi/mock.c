/* The public functions of mock mode, see api.c. */
#include "_cgo_export.h"
#include "check.h"

#define ALL_CALLS                                                                                  \
  (PROSODY_MOCK_READ | PROSODY_MOCK_WRITE | PROSODY_MOCK_PRODUCE | PROSODY_MOCK_CONSUME |          \
   PROSODY_MOCK_COMMIT)

prosody_status prosody_mock_advance(prosody_bytes servers, int64_t milliseconds,
                                    prosody_error *error) {
  ENTER(error);
  READABLE(servers, "servers");
  NEED(milliseconds >= 0 && milliseconds <= FURTHEST, "milliseconds: not within 0 and 100 years");
  return goMockAdvance(servers, milliseconds, error);
}

prosody_status prosody_mock_idle(prosody_bytes servers, prosody_queue *queue, uint64_t tag,
                                 int32_t timeout_ms, prosody_error *error) {
  ENTER(error);
  READABLE(servers, "servers");
  HANDLE(queue);
  NEED(timeout_ms >= 0, "timeout_ms: is negative");
  return goMockIdle(servers, RAW(queue), tag, timeout_ms, error);
}

prosody_status prosody_mock_records(prosody_bytes servers, prosody_bytes topic, uint64_t skip,
                                    void *buffer, size_t capacity, size_t *size, uint32_t *count,
                                    prosody_error *error) {
  ENTER(error);
  READABLE(servers, "servers");
  READABLE(topic, "topic");
  WRITABLE(buffer, capacity);
  NEED(count != NULL, "count: NULL");
  return goMockRecords(servers, topic, skip, buffer, capacity, size, count, error);
}

prosody_status prosody_mock_fail(prosody_bytes servers, uint32_t calls, prosody_bytes name,
                                 int64_t times, prosody_error *error) {
  ENTER(error);
  READABLE(servers, "servers");
  READABLE(name, "name");
  NEED(calls != 0 && (calls & ~(uint32_t)ALL_CALLS) == 0, "calls: no set of PROSODY_MOCK_...");
  NEED(times >= -1, "times: below -1");
  return goMockFail(servers, calls, name, times, error);
}

prosody_status prosody_mock_rebalance(prosody_bytes servers, prosody_bytes group, int32_t reason,
                                      prosody_error *error) {
  ENTER(error);
  READABLE(servers, "servers");
  READABLE(group, "group");
  NEED(reason == PROSODY_CANCEL_REVOKED || reason == PROSODY_CANCEL_LOST,
       "reason: neither revoked nor lost");
  return goMockRebalance(servers, group, reason, error);
}

prosody_status prosody_mock_forget(prosody_bytes servers, prosody_error *error) {
  ENTER(error);
  READABLE(servers, "servers");
  return goMockForget(servers, error);
}
