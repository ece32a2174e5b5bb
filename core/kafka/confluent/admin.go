package confluent

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	library "github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"prosody/core/kafka"
)

const (
	operation = 30 * time.Second       // an admin call without a deadline of its own
	glance    = 50 * time.Millisecond  // between two looks at a topic
	listing   = 500 * time.Millisecond // one try to list topics
)

// admin manages topics.
type admin struct {
	*client
	calls *library.AdminClient
	// life is held for reading by every call, for writing by Close.
	life   sync.RWMutex
	closed bool
	ending context.Context // ended by Close
	end    context.CancelFunc
}

// Admin makes an admin client.
func (Cluster) Admin(servers []string, properties map[string]string) (kafka.Admin, error) {
	all, err := settings(servers, nil, properties, nil)
	if err != nil {
		return nil, err
	}
	a := &admin{}
	a.client, err = connect("admin client", all, nil, func(*library.Message) {})
	if err != nil {
		return nil, err
	}
	a.calls, err = library.NewAdminClientFromProducer(a.library)
	if err != nil {
		_ = a.close()
		return nil, translate("admin client", err)
	}
	a.ending, a.end = context.WithCancel(context.Background())
	return a, nil
}

// begin bounds a call. The caller calls end if there was no error.
func (a *admin) begin(ctx context.Context, what string) (bounded context.Context, end func(), err error) {
	a.life.RLock()
	if a.closed {
		a.life.RUnlock()
		return nil, nil, fail(kafka.Closed, "the admin client is closed")
	}
	if err := ctx.Err(); err != nil {
		a.life.RUnlock()
		return nil, nil, translate(what, err)
	}
	limit := operation
	if deadline, given := ctx.Deadline(); given {
		limit = time.Until(deadline)
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(a.ending, cancel)
	return bounded, func() {
		stop()
		cancel()
		a.life.RUnlock()
	}, nil
}

// failure is the error of a call.
func (a *admin) failure(what string, err error) error {
	if a.ending.Err() != nil {
		return fail(kafka.Closed, what+": the admin client was closed")
	}
	return a.explain(translate(what, err))
}

func (a *admin) Create(ctx context.Context, topic kafka.Topic) error {
	what := "create topic " + topic.Name
	if err := checkTopic(topic.Name); err != nil {
		return err
	}
	if topic.Partitions < 0 || topic.Replication < 0 {
		return fail(kafka.BadConfig, what+": partitions and replication must not be negative")
	}
	for name, value := range topic.Config {
		if strings.ContainsRune(name+value, 0) {
			return fail(kafka.BadConfig, what+": a setting contains a NUL character")
		}
	}
	ctx, end, err := a.begin(ctx, what)
	if err != nil {
		return err
	}
	defer end()
	if topic.Partitions == 0 {
		topic.Partitions = -1
	}
	results, err := a.calls.CreateTopics(ctx, []library.TopicSpecification{{
		Topic: topic.Name, NumPartitions: topic.Partitions, ReplicationFactor: topic.Replication, Config: topic.Config,
	}}, library.SetAdminRequestTimeout(remaining(ctx)), library.SetAdminOperationTimeout(remaining(ctx)))
	if err != nil {
		return a.failure(what, err)
	}
	for _, result := range results {
		if result.Error.Code() == library.ErrTopicAlreadyExists {
			return fail(kafka.Exists, what+": the topic exists already")
		}
		if result.Error.Code() != library.ErrNoError {
			return a.failure(what, result.Error)
		}
	}
	return a.await(ctx, what, topic.Name, func(found library.TopicDescription) bool {
		for _, partition := range found.Partitions {
			if partition.Leader == nil || partition.Leader.ID < 0 {
				return false
			}
		}
		return found.Error.Code() == library.ErrNoError && len(found.Partitions) > 0
	})
}

func (a *admin) Delete(ctx context.Context, name string) error {
	what := "delete topic " + name
	if checkTopic(name) != nil {
		return nil // no topic has such a name
	}
	ctx, end, err := a.begin(ctx, what)
	if err != nil {
		return err
	}
	defer end()
	results, err := a.calls.DeleteTopics(ctx, []string{name},
		library.SetAdminRequestTimeout(remaining(ctx)), library.SetAdminOperationTimeout(remaining(ctx)))
	if err != nil {
		return a.failure(what, err)
	}
	for _, result := range results {
		switch result.Error.Code() {
		case library.ErrNoError, library.ErrUnknownTopicOrPart, library.ErrUnknownTopic:
		default:
			return a.failure(what, result.Error)
		}
	}
	return a.await(ctx, what, name, func(found library.TopicDescription) bool {
		return found.Error.Code() == library.ErrUnknownTopicOrPart
	})
}

// await looks at a topic until done holds.
func (a *admin) await(ctx context.Context, what, name string, done func(library.TopicDescription) bool) error {
	topics := library.NewTopicCollectionOfTopicNames([]string{name})
	last := "the cluster does not know it"
	for {
		result, err := a.calls.DescribeTopics(ctx, topics, library.SetAdminRequestTimeout(remaining(ctx)))
		for _, found := range result.TopicDescriptions {
			if done(found) {
				return nil
			}
			last = found.Error.String()
		}
		if err != nil {
			last = err.Error()
		}
		select {
		case <-ctx.Done():
			return a.failure(fmt.Sprintf("%s: accepted, but not yet everywhere (%s)", what, last), ctx.Err())
		case <-time.After(glance):
		}
	}
}

// remaining is the time that a call has, at least a second for librdkafka itself.
func remaining(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return min(max(time.Until(deadline), time.Second), time.Hour)
}

func (a *admin) Topics(ctx context.Context) (map[string]int, error) {
	const what = "list topics"
	ctx, end, err := a.begin(ctx, what)
	if err != nil {
		return nil, err
	}
	defer end()
	for {
		// The call itself cannot be interrupted, so it is short and repeated.
		start := time.Now()
		metadata, err := a.library.GetMetadata(nil, true, int(listing.Milliseconds()))
		if err == nil {
			topics := make(map[string]int, len(metadata.Topics))
			for name, topic := range metadata.Topics {
				if !strings.HasPrefix(name, "__") && topic.Error.Code() == library.ErrNoError {
					topics[name] = len(topic.Partitions)
				}
			}
			return topics, nil
		}
		problem := translate(what, err)
		if problem.Code != kafka.TimedOut && problem.Code != kafka.Unavailable {
			return nil, problem
		}
		select {
		case <-ctx.Done():
			return nil, a.failure(what, err)
		case <-time.After(glance - min(glance, time.Since(start))):
		}
	}
}

func (a *admin) Close() error {
	a.end()
	a.life.Lock()
	defer a.life.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	a.calls.Close()
	return a.close()
}
