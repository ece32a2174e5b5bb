// Package churn holds the test of core/consumer on a real cluster: members come and go
// while records flow.
package churn

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/clock"
	"prosody/core/consumer"
	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/kafka/confluent"
	"prosody/core/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func servers(t *testing.T) []string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real broker; left out by -short")
	}
	address := os.Getenv("PROSODY_TEST_KAFKA")
	if address == "" {
		address = "localhost:9094"
	}
	connection, err := net.DialTimeout("tcp", address, 5*time.Second)
	require.NoError(t, err, "start a broker (make services), name one in PROSODY_TEST_KAFKA, or run with -short")
	require.NoError(t, connection.Close())
	return []string{address}
}

// ledger notes what handlers did, over all members.
type ledger struct {
	mutex   sync.Mutex
	running map[string]bool
	next    map[string]int
	faults  []string
	total   int
	repeats int
}

func (l *ledger) handle(_ context.Context, inv *pipeline.Invocation) pipeline.Outcome {
	l.begin(inv.Event)
	time.Sleep(time.Millisecond)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.running, inv.Event.Key)
	return pipeline.Outcome{Class: pipeline.Success}
}

func (l *ledger) begin(e *event.Event) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	number, _ := strconv.Atoi(string(e.Payload))
	switch next := l.next[e.Key]; {
	case l.running[e.Key]:
		l.faults = append(l.faults, fmt.Sprintf("key %s: two at once at %d", e.Key, number))
	case number > next:
		l.faults = append(l.faults, fmt.Sprintf("key %s: %d came instead of %d", e.Key, number, next))
	case number < next:
		l.repeats++
	default:
		l.next[e.Key]++
		l.total++
	}
	l.running[e.Key] = true
}

func (l *ledger) handled() (total, repeats int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.total, l.repeats
}

// TestChurn has 3 members of which one leaves and comes back all the time, and 10,000
// records of 100 keys on 6 partitions.
func TestChurn(t *testing.T) {
	const keys, each, partitions = 100, 100, 6
	addresses, name := servers(t), "prosody-churn-"+rand.Text()[:10]
	cluster := confluent.Cluster{}
	admin, err := cluster.Admin(addresses, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close()) }()
	require.NoError(t, admin.Create(t.Context(), kafka.Topic{Name: name, Partitions: partitions, Replication: 1}))
	defer func() { require.NoError(t, admin.Delete(context.Background(), name)) }()

	l := &ledger{running: map[string]bool{}, next: map[string]int{}}
	start := func() *consumer.Consumer {
		c, err := consumer.Start(t.Context(), consumer.Options{
			Cluster: cluster, Servers: addresses, Group: name, Topics: []string{name},
			CommitInterval: 200 * time.Millisecond, ShutdownTimeout: time.Minute,
			Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler), Handler: pipeline.Func(l.handle), Decode: event.Decode,
		})
		require.NoError(t, err)
		return c
	}
	members := []*consumer.Consumer{start(), start(), start()}

	producer, err := cluster.Producer(kafka.ProducerConfig{Servers: addresses})
	require.NoError(t, err)
	var sending sync.WaitGroup
	sending.Go(func() {
		for n := range each {
			for key := range keys {
				record := &kafka.Record{Topic: name, Key: fmt.Append(nil, key), Value: fmt.Append(nil, n)}
				if err := producer.Produce(record, func(d kafka.Delivery) {
					if d.Err != nil {
						t.Error(d.Err)
					}
				}); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
	for round := range 8 {
		time.Sleep(2 * time.Second)
		at := round % len(members)
		begun := time.Now()
		require.NoError(t, members[at].Stop(t.Context()))
		require.Less(t, time.Since(begun), 50*time.Second, "it does not wait for its end")
		members[at] = start()
	}
	sending.Wait()
	require.NoError(t, producer.Close(t.Context()))
	end := time.Now().Add(5 * time.Minute)
	for total, _ := l.handled(); total < keys*each; total, _ = l.handled() {
		require.True(t, time.Now().Before(end), "%d of %d handled", total, keys*each)
		time.Sleep(50 * time.Millisecond)
	}
	settled := func() bool {
		for _, member := range members {
			if member.Partitions() != partitions/len(members) {
				return false
			}
			for _, p := range member.Snapshot().Partitions {
				if p.Position >= 0 && (p.Lag != 0 || p.Position != p.Committed) {
					return false
				}
			}
		}
		return true
	}
	if !assert.Eventually(t, settled, 2*time.Minute, 50*time.Millisecond, "shared, read and committed") {
		for _, member := range members {
			t.Logf("%+v", member.Snapshot().Partitions)
		}
	}
	for _, member := range members {
		require.Empty(t, member.Stalled())
	}
	for _, member := range members {
		require.NoError(t, member.Stop(t.Context()))
	}
	_, repeats := l.handled()
	t.Logf("%d records, %d came again", keys*each, repeats)
	require.Empty(t, l.faults)
}
