package client

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/kafka"
	"prosody/core/kafka/confluent"
	"prosody/core/pipeline"
	"prosody/core/producer"
)

// Many keys with one message each: what is kept of them is bounded, and nothing is left
// at work. KEYS says how many; with KEYS_REAL=1 Kafka and Cassandra are real, and the
// memory of the process must stay flat. In mock mode the log and the store are in it.
func TestManyKeys(t *testing.T) {
	count, err := strconv.Atoi(cmp.Or(os.Getenv("KEYS"), "10000"))
	require.NoError(t, err)
	outside := os.Getenv("KEYS_REAL") != ""
	name := fmt.Sprintf("keys-%d", time.Now().UnixNano())
	options := map[string]string{"subscribed_topics": name, "idempotence_cache_size": "4096", "max_concurrency": "256", "max_uncommitted": "1024"}
	if outside {
		servers := cmp.Or(os.Getenv("PROSODY_TEST_KAFKA"), "localhost:9094")
		options["mock"], options["bootstrap_servers"], options["group_id"] = "false", servers, name
		options["cassandra_nodes"], options["cassandra_keyspace"] = cmp.Or(os.Getenv("PROSODY_TEST_CASSANDRA"), "localhost:9042"), "prosody_durable"
		options["probe_port"], options["send_timeout"] = "none", "60s"
		admin, err := confluent.Cluster{}.Admin(strings.Split(servers, ","), nil)
		require.NoError(t, err)
		require.NoError(t, admin.Create(t.Context(), kafka.Topic{Name: name, Partitions: 4, Replication: 1}))
		require.NoError(t, admin.Close())
	}
	client, err := New(plan(t, options), Deps{Memory: registry, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Shutdown(context.Background())) }()
	var handled atomic.Int64
	host := pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
		handled.Add(1)
		return pipeline.Outcome{Class: pipeline.Success}
	})
	require.NoError(t, client.Subscribe(t.Context(), host))
	require.Eventually(t, func() bool { return client.Partitions() > 0 }, 2*time.Minute, 10*time.Millisecond)
	idle := runtime.NumGoroutine()
	var early, late uint64
	var committed int64
	began := time.Now()
	flying := make(chan struct{}, 10_000)
	for n := range count {
		if n%(max(10, count/10)) == 0 && n > 0 {
			heap, resident := usage()
			committed = 0
			for _, one := range client.current().consumer.Snapshot().Partitions {
				committed += max(0, one.Committed)
			}
			late = heap
			if n*10/count == 3 {
				early = heap
			}
			t.Logf("%8d sent, %8d handled, %8d committed, %5.1f s: heap %d KiB, resident %d KiB, %d goroutines, %+v", n, handled.Load(), committed,
				time.Since(began).Seconds(), heap>>10, resident, runtime.NumGoroutine(), client.current().keep.Keeper.Snapshot())
		}
		flying <- struct{}{}
		record := producer.Outgoing{Topic: name, Key: fmt.Sprint("key-", n), Payload: []byte(`{"id":"one","n":1}`)}
		require.NoError(t, client.Send(record, func(sent producer.Sent) {
			if assert.Nil(t, sent.Err) {
				<-flying
			}
		}))
		for n-int(handled.Load()) > 20_000 {
			time.Sleep(time.Millisecond)
		}
	}
	require.Eventually(t, func() bool { return handled.Load() == int64(count) }, 5*time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool { return client.current().keep.Keeper.Snapshot().Unwritten == 0 }, 5*time.Minute, 10*time.Millisecond)
	keys := client.current().keep.Keeper.Snapshot()
	t.Logf("%d keys in %s: %+v", count, time.Since(began), keys)
	require.LessOrEqual(t, keys.Loaded, 4096)
	if outside {
		require.Greater(t, committed, int64(count/2), "offset commits do not keep up")
		require.Less(t, float64(late), 1.25*float64(early)+(8<<20))
	}
	// Workers that wait for work are kept, but not more than a few.
	require.Eventually(t, func() bool { return runtime.NumGoroutine() < idle+80 }, 2*time.Minute, 50*time.Millisecond)
	t.Logf("goroutines: %d, before %d", runtime.NumGoroutine(), idle)
}

// usage is the live heap in bytes, and what the process has in KiB.
func usage() (heap uint64, resident int) {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			resident, _ = strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	return stats.HeapAlloc, resident
}
