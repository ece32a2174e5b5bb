package memory

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"prosody/core/kafka"
)

// Hook decides about a call before it is done: the error that it returns is the
// call's. op is "produce", with the topic's name, or "commit" or "consume", with the
// group's; a Poll that fails so delivers nothing.
type Hook func(op, name string) error

// Broker is one cluster in memory. It is a kafka.Cluster.
type Broker struct {
	settings Settings

	mutex  sync.RWMutex
	topics map[string]*topic
	groups map[string]*group

	hook     atomic.Pointer[Hook]
	appended atomic.Int64 // records, since the broker was made
}

var _ kafka.Cluster = (*Broker)(nil)

func newBroker(settings Settings) *Broker {
	return &Broker{settings: settings, topics: map[string]*topic{}, groups: map[string]*group{}}
}

// Consumer makes a consumer. Properties are ignored.
func (b *Broker) Consumer(config kafka.ConsumerConfig) (kafka.Consumer, error) {
	if config.Group == "" {
		return nil, fail(kafka.BadConfig, "a consumer needs a group")
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return newConsumer(b, b.group(config.Group)), nil
}

// Producer makes a producer. Properties and the time-out are ignored: a record is
// placed at once, by the CRC32 of its key.
func (b *Broker) Producer(kafka.ProducerConfig) (kafka.Producer, error) {
	return &producer{broker: b}, nil
}

// Admin makes an admin client, which is an *Admin.
func (b *Broker) Admin([]string, map[string]string) (kafka.Admin, error) {
	return &Admin{broker: b}, nil
}

// Fail sets the hook that makes calls fail; nil takes it away. The hook is called by
// the caller's goroutine, without a lock.
func (b *Broker) Fail(hook Hook) {
	if hook == nil {
		b.hook.Store(nil)
		return
	}
	b.hook.Store(&hook)
}

// Expel takes every member out of a group, as if its session had ended. Each joins
// again at its next Poll. False: no member has a partition.
func (b *Broker) Expel(name string) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	group := b.groups[name]
	if group == nil || len(group.owners) == 0 {
		return false
	}
	for _, member := range slices.Clone(group.members) {
		group.remove(member, true)
	}
	return true
}

// Compact compacts a topic at once, whatever its policy. Topics with cleanup.policy
// compact are compacted now and then by themselves.
func (b *Broker) Compact(name string) {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	if topic := b.topics[name]; topic != nil {
		for _, log := range topic.logs {
			log.compact()
		}
	}
}

// Committed tells a group's offset, or false.
func (b *Broker) Committed(name string, partition kafka.Partition) (int64, bool) {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	group := b.groups[name]
	if group == nil {
		return 0, false
	}
	offset, has := group.offsets[partition]
	return offset, has
}

func (b *Broker) fault(op, name string) error {
	if hook := b.hook.Load(); hook != nil {
		return (*hook)(op, name)
	}
	return nil
}

// group finds or makes a group; under the mutex.
func (b *Broker) group(name string) *group {
	found := b.groups[name]
	if found == nil {
		name = strings.Clone(name)
		found = &group{name: name, broker: b, offsets: map[kafka.Partition]int64{}, owners: map[kafka.Partition]*claim{}}
		b.groups[name] = found
	}
	return found
}

// imply makes a topic of the broker's defaults, if it is absent; under the mutex.
func (b *Broker) imply(name string, subscribed bool) (*topic, error) {
	if present := b.topics[name]; present != nil {
		return present, nil
	}
	made, err := b.newTopic(kafka.Topic{Name: name})
	if err != nil {
		return nil, err
	}
	made.implied = subscribed
	b.put(made)
	return made, nil
}

// put adds a topic; under the mutex.
func (b *Broker) put(made *topic) {
	b.topics[made.name] = made
	b.changed(made.name)
}

// delete removes a topic and what groups hold and know of it; under the mutex.
func (b *Broker) delete(name string) {
	topic := b.topics[name]
	if topic == nil {
		return
	}
	delete(b.topics, name)
	for _, log := range topic.logs {
		log.remove()
	}
	for _, group := range b.groups {
		group.forget(topic)
	}
	b.changed(name)
}

// changed lets the groups that want a topic share its partitions anew.
func (b *Broker) changed(name string) {
	for _, group := range b.groups {
		for _, member := range group.members {
			if member.wanted.matches(name) {
				group.balance()
				break
			}
		}
	}
}

// log finds the log for a key, and makes the topic when it is absent.
func (b *Broker) log(name string, hash uint32) (*log, error) {
	b.mutex.RLock()
	if topic := b.topics[name]; topic != nil {
		defer b.mutex.RUnlock()
		return topic.place(hash), nil
	}
	b.mutex.RUnlock()
	b.mutex.Lock()
	defer b.mutex.Unlock()
	topic, err := b.imply(name, false)
	if err != nil {
		return nil, err
	}
	return topic.place(hash), nil
}

func (b *Broker) reset() {
	b.hook.Store(nil)
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for name := range b.topics {
		b.delete(name)
	}
	for name, group := range b.groups {
		clear(group.offsets)
		if len(group.members) == 0 {
			delete(b.groups, name)
		}
	}
}
