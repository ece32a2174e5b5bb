// Package memory is the embedded Kafka of mock mode: logs, groups, offsets and
// admin behind the port core/kafka. It opens no socket and starts no goroutine.
//
// It owns the group's rule that I1 and I3 rest on: a partition has one owner, and
// moves only after its owner released it, lost it or left. A commit by anybody
// else is refused.
//
// Clients of one name share one Broker, found through the process's Registry. A
// broker's data stay for as long as its Registry; Reset empties it.
//
// Lock order: Broker, then Consumer, then log.
package memory

import (
	"slices"
	"strings"
	"sync"
	"time"

	"prosody/core/clock"
	"prosody/core/kafka"
)

// Settings say how brokers behave. Zero values mean the defaults.
type Settings struct {
	// Partitions of a topic that is made by use; 3.
	Partitions int
	// Retention is the most bytes that a partition keeps; 64 MiB. The oldest
	// records go first. A topic's retention.bytes overrides it.
	Retention int
	// Record is the most bytes of a record with its overhead; 1 MiB. A topic's
	// max.message.bytes overrides it.
	Record int
	// Session is how long a member may go without Poll; 5 minutes.
	Session time.Duration
	// Clock measures sessions and stamps records. Leave it real where tests move a
	// clock by hours: a jump over Session would expel every member.
	Clock clock.Clock
}

func (s Settings) complete() Settings {
	if s.Partitions <= 0 {
		s.Partitions = 3
	}
	if s.Retention <= 0 {
		s.Retention = 64 << 20
	}
	if s.Record <= 0 {
		s.Record = 1 << 20
	}
	if s.Session <= 0 {
		s.Session = 5 * time.Minute
	}
	if s.Clock == nil {
		s.Clock = clock.Real{}
	}
	return s
}

// Registry finds brokers by name. A process has one, made by its composition root.
type Registry struct {
	settings Settings
	mutex    sync.Mutex
	brokers  map[string]*Broker
}

// NewRegistry makes a registry whose brokers follow settings.
func NewRegistry(settings Settings) *Registry {
	return &Registry{settings: settings.complete(), brokers: map[string]*Broker{}}
}

// Broker finds or makes the broker of a name: a list of servers, joined by commas. Its
// order, spaces and empty items make no difference.
func (r *Registry) Broker(name string) *Broker {
	name = normal(name)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	broker := r.brokers[name]
	if broker == nil {
		broker = newBroker(r.settings)
		r.brokers[name] = broker
	}
	return broker
}

func normal(name string) string {
	var servers []string
	for server := range strings.SplitSeq(name, ",") {
		if server = strings.TrimSpace(server); server != "" {
			servers = append(servers, server)
		}
	}
	slices.Sort(servers)
	return strings.Clone(strings.Join(slices.Compact(servers), ","))
}

// Cluster is Broker as the port. Servers in the configuration of its clients are
// ignored: the name has chosen the broker.
func (r *Registry) Cluster(name string) kafka.Cluster { return r.Broker(name) }

// Reset empties the broker of a name: its topics, offsets and faults. Members that
// are still there lose their partitions and keep their subscription.
func (r *Registry) Reset(name string) {
	r.mutex.Lock()
	broker := r.brokers[normal(name)]
	r.mutex.Unlock()
	if broker != nil {
		broker.reset()
	}
}

// Remove forgets the broker of a name, which nobody uses any more.
func (r *Registry) Remove(name string) {
	r.Reset(name)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.brokers, normal(name))
}

func fail(code kafka.Code, text string) *kafka.Error { return &kafka.Error{Code: code, Text: text} }
