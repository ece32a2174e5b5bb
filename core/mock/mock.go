// Package mock owns what clients in mock mode share by the name of their servers: the
// clock, the broker, the stores, and the faults that tests inject. It knows when nothing
// is left to do.
//
// Only tests and demos use it: no client that is not in mock mode comes here.
package mock

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"prosody/core/clock"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/kafka/memory"
	stores "prosody/core/store/memory"
)

// Worlds finds worlds by the names of their servers. A process has one.
type Worlds struct {
	Brokers *memory.Registry

	mutex  sync.Mutex
	worlds map[string]*World
}

// NewWorlds makes a registry without worlds.
func NewWorlds() *Worlds {
	return &Worlds{Brokers: memory.NewRegistry(memory.Settings{}), worlds: map[string]*World{}}
}

// Client is what a world asks of its clients.
type Client interface {
	// Busy tells what the client still has to do, or nothing, and a number that grows with
	// all that comes in.
	Busy() (moves int64, reason string)
}

// World is what clients with the same servers share.
type World struct {
	Clock  *clock.Shifted
	Stores *stores.Registry
	Broker *memory.Broker

	store *stores.Store

	mutex   sync.Mutex
	clients map[Client]struct{}
	rules   []*rule
}

// World finds or makes the world of some servers.
func (w *Worlds) World(servers []string) *World {
	name := normal(servers)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	found := w.worlds[name]
	if found == nil {
		shifted := clock.NewShifted()
		registry := stores.NewRegistry(stores.Settings{Clock: shifted})
		found = &World{
			Clock: shifted, Stores: registry, Broker: w.Brokers.Broker(name), store: registry.Store(name),
			clients: map[Client]struct{}{},
		}
		w.worlds[name] = found
	}
	return found
}

// Find gives the world of some servers, joined by commas. There is none before the first
// client.
func (w *Worlds) Find(servers string) (*World, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if found := w.worlds[normal(strings.Split(servers, ","))]; found != nil {
		return found, nil
	}
	return nil, fault.New(fault.Argument, "servers: no client in mock mode has them")
}

// Forget frees a world that has no clients any more: records, state and faults.
func (w *Worlds) Forget(servers string) error {
	found, err := w.Find(servers)
	if err != nil {
		return err
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	found.mutex.Lock()
	defer found.mutex.Unlock()
	if open := len(found.clients); open > 0 {
		return fault.New(fault.State, "%d clients with these servers are open", open)
	}
	name := normal(strings.Split(servers, ","))
	w.Brokers.Remove(name)
	delete(w.worlds, name)
	return nil
}

// normal is the same for the same servers, whatever their order.
func normal(servers []string) string {
	names := make([]string, 0, len(servers))
	for _, server := range servers {
		if server = strings.TrimSpace(server); server != "" {
			names = append(names, server)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// Join notes a client, until Leave.
func (w *World) Join(client Client) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.clients[client] = struct{}{}
}

// Leave forgets a client.
func (w *World) Leave(client Client) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.clients, client)
}

// Records gives the records of a topic from number skip on, in the order in which they
// were sent.
func (w *World) Records(topic string, skip uint64) []*kafka.Record {
	records, _ := w.Broker.Records(topic)
	return records[min(skip, uint64(len(records))):]
}

// Rebalance takes all partitions away from a group, which shares them anew. lost: at once,
// as when the session of its members has ended.
func (w *World) Rebalance(group string, lost bool) error {
	take := w.Broker.Revoke
	if lost {
		take = w.Broker.Expel
	}
	if !take(group) {
		return fault.New(fault.Argument, "group: no member of %q has a partition", group)
	}
	return nil
}

const glance = 200 * time.Microsecond // between two looks

// Idle waits until nothing is left to do: every record is handled, nothing is due by the
// clock, each partition has its owner. When ctx ends before, the error tells what is busy.
func (w *World) Idle(ctx context.Context) error {
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	for {
		reason := w.busy()
		if reason == "" {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fault.New(fault.Timeout, "not idle yet: %s", reason)
		}
	}
}

// busy tells what is left to do. Work moves from the log to a client and from there, by
// what a handler sends, to a log: nothing may have come in while all were asked.
func (w *World) busy() string {
	before, reason := w.look()
	if reason != "" {
		return reason
	}
	if after, reason := w.look(); reason != "" || after != before {
		return "records come in " + reason
	}
	return ""
}

func (w *World) look() (moves int64, reason string) {
	if reason = w.Broker.Busy(); reason != "" {
		return 0, reason
	}
	w.mutex.Lock()
	clients := make([]Client, 0, len(w.clients))
	for client := range w.clients {
		clients = append(clients, client)
	}
	w.mutex.Unlock()
	for _, client := range clients {
		more, reason := client.Busy()
		if reason != "" {
			return 0, reason
		}
		moves += more
	}
	return moves + w.Broker.Appended(), ""
}
