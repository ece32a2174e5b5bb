package storetest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"prosody/core/store"
)

// unique makes names that no other test and no other run has.
func unique(t testing.TB, counter *atomic.Int64) string {
	return fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano(), counter.Add(1))
}

func fresh(t testing.TB) store.Key {
	return store.Key{Group: "contract", Topic: "topic", Key: unique(t, new(atomic.Int64))}
}
