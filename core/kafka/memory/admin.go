package memory

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"prosody/core/kafka"
)

// Admin manages topics.
type Admin struct {
	broker *Broker
	closed atomic.Bool
}

var _ kafka.Admin = (*Admin)(nil)

func (a *Admin) ready(ctx context.Context, what string) error {
	if a.closed.Load() {
		return shut("admin client")
	}
	return ended(ctx, what)
}

// Create makes a topic. One that is there only because of a subscription gives way:
// its partitions are lost to their owners and assigned anew.
func (a *Admin) Create(ctx context.Context, topic kafka.Topic) error {
	if err := a.ready(ctx, "create topic"); err != nil {
		return err
	}
	a.broker.mutex.Lock()
	defer a.broker.mutex.Unlock()
	made, err := a.broker.newTopic(topic)
	if err != nil {
		return err
	}
	if present := a.broker.topics[topic.Name]; present != nil {
		if !present.blank() {
			return fail(kafka.Exists, "topic "+topic.Name+" exists already")
		}
		a.broker.delete(topic.Name)
	}
	a.broker.put(made)
	return nil
}

// AddPartitions raises the number of partitions of a topic to total.
func (a *Admin) AddPartitions(ctx context.Context, name string, total int) error {
	if err := a.ready(ctx, "add partitions"); err != nil {
		return err
	}
	a.broker.mutex.Lock()
	defer a.broker.mutex.Unlock()
	topic := a.broker.topics[name]
	if topic == nil {
		return fail(kafka.UnknownTopic, "topic "+name+" does not exist")
	}
	if total <= len(topic.logs) {
		return fail(kafka.BadConfig, fmt.Sprintf("topic %s has %d partitions; %d are not more", name, len(topic.logs), total))
	}
	topic.grow(total)
	a.broker.changed(name)
	return nil
}

// Delete removes a topic and the groups' offsets in it.
func (a *Admin) Delete(ctx context.Context, name string) error {
	if err := a.ready(ctx, "delete topic"); err != nil {
		return err
	}
	a.broker.mutex.Lock()
	defer a.broker.mutex.Unlock()
	a.broker.delete(name)
	return nil
}

// Topics lists the topics.
func (a *Admin) Topics(ctx context.Context) (map[string]int, error) {
	if err := a.ready(ctx, "list topics"); err != nil {
		return nil, err
	}
	a.broker.mutex.RLock()
	defer a.broker.mutex.RUnlock()
	topics := make(map[string]int, len(a.broker.topics))
	for name, topic := range a.broker.topics {
		if !strings.HasPrefix(name, "__") {
			topics[name] = len(topic.logs)
		}
	}
	return topics, nil
}

// Close ends the client.
func (a *Admin) Close() error {
	a.closed.Store(true)
	return nil
}
