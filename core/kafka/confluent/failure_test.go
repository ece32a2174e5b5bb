package confluent

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	library "github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/kafka"
)

func TestMeaning(t *testing.T) {
	for code, want := range map[library.ErrorCode]kafka.Code{
		library.ErrFatal: kafka.Fatal, library.ErrFenced: kafka.Fatal, library.ErrProducerFenced: kafka.Fatal,
		library.ErrMsgSizeTooLarge: kafka.TooLarge, library.ErrInvalidRecord: kafka.BadRecord,
		library.ErrUnknownTopicOrPart: kafka.UnknownTopic, library.ErrTopicException: kafka.BadTopic,
		library.ErrTopicAlreadyExists: kafka.Exists, library.ErrTopicAuthorizationFailed: kafka.Denied,
		library.ErrInvalidConfig: kafka.BadConfig, library.ErrAllBrokersDown: kafka.Unavailable,
		library.ErrMsgTimedOut: kafka.TimedOut, library.ErrRebalanceInProgress: kafka.Rebalancing,
		library.ErrIllegalGeneration: kafka.Stale, library.ErrUnknownMemberID: kafka.Stale,
		library.ErrQueueFull: kafka.Full, library.ErrUnknown: kafka.Unknown, library.ErrStaleBrokerEpoch: kafka.Unknown,
	} {
		problem := failure("", code, "")
		assert.Equalf(t, want, problem.Code, "%v", code)
		assert.NotEmpty(t, problem.Text)
	}
}

func TestSettingsRefused(t *testing.T) {
	problem := func(err error) *kafka.Error {
		t.Helper()
		var problem *kafka.Error
		require.ErrorAs(t, err, &problem)
		assert.Equal(t, kafka.BadConfig, problem.Code)
		return problem
	}
	some := []string{"localhost:1"}
	for _, servers := range [][]string{nil, {""}, {" , "}} {
		_, err := Cluster{}.Producer(kafka.ProducerConfig{Servers: servers})
		assert.Contains(t, problem(err).Text, "bootstrap.servers")
		_, err = Cluster{}.Consumer(kafka.ConsumerConfig{Servers: servers, Group: "g"})
		assert.Contains(t, problem(err).Text, "bootstrap.servers")
		_, err = Cluster{}.Admin(servers, nil)
		assert.Contains(t, problem(err).Text, "bootstrap.servers")
	}
	_, err := Cluster{}.Consumer(kafka.ConsumerConfig{Servers: some})
	assert.Contains(t, problem(err).Text, "group.id")
	for name, value := range map[string]string{
		"partition.assignment.strategy": "range", "group.protocol": "consumer", "enable.auto.commit": "true",
		"auto.offset.reset": "latest", "go.events.channel.enable": "true", "bootstrap.servers": "other:1",
		"no.such.property": "1", "session.timeout.ms": "soon",
	} {
		_, err := Cluster{}.Consumer(kafka.ConsumerConfig{Servers: some, Group: "g", Properties: map[string]string{name: value}})
		assert.Contains(t, problem(err).Text, "kafka."+name)
	}
	for name, value := range map[string]string{"acks": "1", "enable.idempotence": "false", "no.such.property": "1", "linger.ms": "soon"} {
		_, err := Cluster{}.Producer(kafka.ProducerConfig{Servers: some, Properties: map[string]string{name: value}})
		assert.Contains(t, problem(err).Text, "kafka."+name)
	}
	secret := map[string]string{"ssl.key.pem": "hunter2-not-a-key", "security.protocol": "ssl", "ssl.key.password": "hunter2"}
	_, err = Cluster{}.Producer(kafka.ProducerConfig{Servers: some, Properties: secret})
	assert.NotContains(t, problem(err).Text, "hunter2")
	_, err = Cluster{}.Consumer(kafka.ConsumerConfig{Servers: some, Group: "g", Properties: secret})
	assert.NotContains(t, problem(err).Text, "hunter2")
}

// nowhere is an address where nobody answers, and one where somebody is silent.
func nowhere(t *testing.T) map[string][]string {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, never answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	return map[string][]string{"Refused": {"127.0.0.1:1"}, "Silent": {silent.Addr().String()}}
}

// Without a broker every call ends, and says why.
func TestNoBroker(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { // what is done behind Close ends, too
		leak := goleak.Find(before)
		for start := time.Now(); leak != nil && time.Since(start) < 2*time.Minute; {
			leak = goleak.Find(before)
		}
		assert.NoError(t, leak)
	})
	for name, address := range nowhere(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			consumer, err := Cluster{}.Consumer(kafka.ConsumerConfig{
				Servers: address, Group: "g", Properties: map[string]string{"session.timeout.ms": "6000"},
			})
			require.NoError(t, err)
			require.NoError(t, consumer.Subscribe([]string{"topic"}))
			var problems []error
			for len(problems) == 0 && name == "Refused" && time.Since(start) < time.Minute {
				problems = consumer.Poll(100*time.Millisecond, 10).Errors
			}
			for _, problem := range problems {
				assert.Equal(t, kafka.Unavailable, problemOf(t, problem).Code, problem.Error())
			}
			assert.False(t, consumer.Joined())
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			require.Error(t, consumer.Commit(ctx, []kafka.Position{{Partition: kafka.Partition{Topic: "topic"}, Offset: 1}}))
			start = time.Now()
			_ = consumer.Close() // the commit is still on its way
			assert.Less(t, time.Since(start), 30*time.Second)

			idle, err := Cluster{}.Consumer(kafka.ConsumerConfig{Servers: address, Group: "g"})
			require.NoError(t, err)
			require.NoError(t, idle.Subscribe([]string{"topic"}))
			idle.Poll(100*time.Millisecond, 10)
			start = time.Now()
			require.NoError(t, idle.Close())
			assert.Less(t, time.Since(start), 30*time.Second)

			var lines atomic.Int64
			producer, err := Cluster{}.Producer(kafka.ProducerConfig{
				Servers: address, SendTimeout: time.Second, OnLog: func(int, string) { lines.Add(1) },
			})
			require.NoError(t, err)
			if name == "Refused" { // it is known before the time of the record ends
				require.Eventually(t, func() bool { return lines.Load() > 0 }, time.Minute, time.Millisecond)
			}
			answers := make(chan kafka.Delivery, 2)
			start = time.Now()
			require.NoError(t, producer.Produce(&kafka.Record{Topic: "topic", Value: []byte("1")}, func(d kafka.Delivery) { answers <- d }))
			problem := problemOf(t, (<-answers).Err)
			assert.Less(t, time.Since(start), 20*time.Second, "of the default, which is minutes")
			assert.Contains(t, problem.Text, "topic")
			assert.False(t, problem.Permanent())
			if name == "Refused" {
				assert.Equal(t, kafka.Unavailable, problem.Code)
				assert.Contains(t, problem.Text, "refused")
			}
			require.NoError(t, producer.Produce(&kafka.Record{Topic: "topic", Value: []byte("1")}, func(d kafka.Delivery) { answers <- d }))
			ended, end := context.WithCancel(t.Context())
			end()
			start = time.Now()
			require.Error(t, producer.Close(ended))
			assert.Less(t, time.Since(start), 20*time.Second)
			assert.Equal(t, kafka.Closed, problemOf(t, (<-answers).Err).Code)

			admin, err := Cluster{}.Admin(address, nil)
			require.NoError(t, err)
			for what, call := range map[string]func(context.Context) error{
				"create": func(ctx context.Context) error { return admin.Create(ctx, kafka.Topic{Name: "t", Partitions: 1}) },
				"delete": func(ctx context.Context) error { return admin.Delete(ctx, "t") },
				"list":   func(ctx context.Context) error { _, err := admin.Topics(ctx); return err },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				start = time.Now()
				err := call(ctx)
				cancel()
				require.Errorf(t, err, "%s", what)
				assert.Less(t, time.Since(start), 20*time.Second, what)
				assert.Contains(t, err.Error(), what)
			}
			require.NoError(t, admin.Close())
		})
	}
}

// A record over the topic's limit fails alone; what was sent beside it arrives.
func TestTooLargeAlone(t *testing.T) {
	topic := makeTopic(t, 1, map[string]string{"max.message.bytes": "10240"})
	producer, err := Cluster{}.Producer(kafka.ProducerConfig{Servers: servers(t), SendTimeout: 2 * time.Minute})
	require.NoError(t, err)
	noise := make([]byte, 50<<10)
	for i, state := 0, uint32(1); i < len(noise); i++ {
		state = state*1664525 + 1013904223
		noise[i] = byte(state >> 24)
	}
	var small, refused atomic.Int64
	for i := range 200 {
		require.NoError(t, producer.Produce(&kafka.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i%7), Value: bytes.Repeat([]byte("v"), 100)},
			func(d kafka.Delivery) {
				if assert.NoError(t, d.Err) {
					small.Add(1)
				}
			}))
		if i == 100 {
			require.NoError(t, producer.Produce(&kafka.Record{Topic: topic, Key: []byte("big"), Value: noise}, func(d kafka.Delivery) {
				var problem *kafka.Error
				if assert.ErrorAs(t, d.Err, &problem) {
					assert.Equal(t, kafka.TooLarge, problem.Code)
					assert.Contains(t, problem.Text, topic)
					refused.Add(1)
				}
			}))
		}
	}
	require.NoError(t, producer.Close(t.Context()))
	assert.EqualValues(t, 200, small.Load())
	assert.EqualValues(t, 1, refused.Load())
}

// A topic that does not exist is named in time, and used once it is there.
func TestUnknownTopic(t *testing.T) {
	topic := fresh()
	const timeout = 2 * time.Second
	producer, err := Cluster{}.Producer(kafka.ProducerConfig{Servers: servers(t), SendTimeout: timeout})
	require.NoError(t, err)
	t.Cleanup(func() { _ = producer.Close(context.Background()) })
	send := func() error {
		answer := make(chan error, 1)
		if err := producer.Produce(&kafka.Record{Topic: topic, Value: []byte("1")}, func(d kafka.Delivery) { answer <- d.Err }); err != nil {
			return err
		}
		return <-answer
	}
	// A broker that does not answer in time has not said that there is no such topic.
	for patience, code := time.Now().Add(2*time.Minute), kafka.TimedOut; code != kafka.UnknownTopic; {
		start := time.Now()
		require.True(t, start.Before(patience), "the last answer is %v", code)
		problem := problemOf(t, send())
		assert.Less(t, time.Since(start), timeout+20*time.Second)
		assert.Contains(t, problem.Text, topic)
		assert.False(t, problem.Permanent())
		code = problem.Code
	}
	create(t, topic, 1, nil)
	t.Cleanup(func() { remove(t, topic) })
	require.Eventually(t, func() bool { return send() == nil }, 2*time.Minute, 50*time.Millisecond)
}

func TestTopicNames(t *testing.T) {
	for _, name := range []string{"a", "a.b_c-D9", "...", strings.Repeat("a", 249)} {
		assert.NoError(t, func() error {
			if err := checkTopic(name); err != nil {
				return err
			}
			return nil
		}(), name)
	}
}

// A full queue refuses a record at once, and takes it later.
func TestFull(t *testing.T) {
	topic := makeTopic(t, 1, nil)
	producer, err := Cluster{}.Producer(kafka.ProducerConfig{
		Servers: servers(t), Properties: map[string]string{"queue.buffering.max.messages": "10", "linger.ms": "10000"},
	})
	require.NoError(t, err)
	var done atomic.Int64
	record := &kafka.Record{Topic: topic, Value: []byte("1")}
	for range 10 {
		require.NoError(t, producer.Produce(record, func(kafka.Delivery) { done.Add(1) }))
	}
	var problem *kafka.Error
	require.ErrorAs(t, producer.Produce(record, func(kafka.Delivery) { t.Error("done of a refused record") }), &problem)
	assert.Equal(t, kafka.Full, problem.Code)
	require.Eventually(t, func() bool { return done.Load() == 10 }, 2*time.Minute, time.Millisecond)
	// A record that was answered leaves the queue a little later.
	require.Eventually(t, func() bool {
		err := producer.Produce(record, func(kafka.Delivery) { done.Add(1) })
		return err == nil || problemOf(t, err).Code != kafka.Full
	}, time.Minute, time.Millisecond)
	require.NoError(t, producer.Close(t.Context()))
	assert.EqualValues(t, 11, done.Load())
}

// A property that is for another kind of client is no reason to warn: all are given the same.
func TestPropertiesOfOtherClients(t *testing.T) {
	var mutex sync.Mutex
	var lines []string
	note := func(_ int, text string) {
		mutex.Lock()
		defer mutex.Unlock()
		lines = append(lines, text)
	}
	said := func(text string) (count int) {
		mutex.Lock()
		defer mutex.Unlock()
		for _, line := range lines {
			if strings.Contains(line, text) {
				count++
			}
		}
		return count
	}
	servers := []string{"127.0.0.1:1"}
	properties := map[string]string{"fetch.min.bytes": "2", "linger.ms": "5"}
	made, err := Cluster{}.Producer(kafka.ProducerConfig{Servers: servers, SendTimeout: time.Second, Properties: properties, OnLog: note})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return said("refused") > 0 }, 2*time.Minute, 10*time.Millisecond)
	require.NoError(t, made.Close(t.Context()))
	heard := said("refused")
	consumer, err := Cluster{}.Consumer(kafka.ConsumerConfig{Servers: servers, Group: fresh(), Properties: properties, OnLog: note})
	require.NoError(t, err)
	require.NoError(t, consumer.Subscribe([]string{fresh()}))
	require.Eventually(t, func() bool {
		consumer.Poll(10*time.Millisecond, 10)
		return said("refused") > heard
	}, 2*time.Minute, time.Millisecond)
	_ = consumer.Close()
	assert.Zero(t, said("will be ignored"))
}
