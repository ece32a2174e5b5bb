package publish

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"prosody/core/clock"
	"prosody/core/config"
	"prosody/core/fault"
	"prosody/core/state"
	"prosody/core/store"
)

// Owner is a consumer's entries in the catalog.
type Owner struct {
	Catalog     store.Catalog
	Group       string
	Subsystem   string // empty: nothing is published
	Topics      []string
	Collections []config.Collection
	Clock       clock.Clock
	Log         *slog.Logger

	mutex   sync.Mutex
	closed  bool
	known   map[string]bool // topics that are published, or about to be
	workers sync.WaitGroup
	stop    context.CancelFunc
	over    context.Context
}

// Register records what the collections are, and publishes or retires them. It fails where
// a collection was something else before.
func (o *Owner) Register(ctx context.Context) error {
	o.over, o.stop = context.WithCancel(context.Background())
	o.known = map[string]bool{}
	for _, collection := range o.Collections {
		identity := state.IdentityOf(collection)
		recorded, err := o.Catalog.Identify(ctx, o.Group, collection.Name, identity.Mark())
		if err != nil {
			return err
		}
		if recorded != identity.Mark() {
			return fault.New(fault.Identity, "state collection identity mismatch: group %q has recorded %q as %q, and it is defined as %q",
				o.Group, collection.Name, recorded, identity.Mark())
		}
		if !collection.Published && o.Subsystem != "" {
			if err := o.retire(ctx, collection.Name); err != nil {
				return err
			}
		}
	}
	for _, topic := range o.Topics {
		if strings.HasPrefix(topic, "^") {
			continue // its topics are published as they are assigned
		}
		o.known[topic] = true
		if err := o.publish(ctx, topic); err != nil {
			return err
		}
	}
	return nil
}

func (o *Owner) retire(ctx context.Context, name string) error {
	list, err := o.Catalog.Publications(ctx, o.Subsystem, name)
	if err != nil {
		return err
	}
	for _, one := range list {
		if one.Group == o.Group {
			return o.Catalog.Retire(ctx, o.Subsystem, name, o.Group)
		}
	}
	return nil
}

func (o *Owner) publish(ctx context.Context, topic string) error {
	for _, collection := range o.Collections {
		if !collection.Published || o.Subsystem == "" {
			continue
		}
		err := o.Catalog.Publish(ctx, store.Publication{
			Subsystem: o.Subsystem, Name: collection.Name, Group: o.Group, Topic: topic,
			Identity: state.IdentityOf(collection).Mark(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Assigned publishes a topic in the background, unless it is already.
func (o *Owner) Assigned(topic string) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.closed || o.known == nil || o.known[topic] {
		return
	}
	o.known[topic] = true
	o.workers.Go(func() {
		defer func() {
			if thrown := recover(); thrown != nil {
				o.Log.Error("publishing the state of a topic panicked", "topic", topic, "panic", thrown)
			}
		}()
		for delay := time.Second; ; delay = min(2*delay, time.Minute) {
			err := o.publish(o.over, topic)
			if err == nil || o.over.Err() != nil {
				return
			}
			o.Log.Warn("state of a topic could not be published, trying again", "topic", topic, "error", err)
			if clock.Sleep(o.over, o.Clock, delay) != nil {
				return
			}
		}
	})
}

// Close ends what works in the background.
func (o *Owner) Close() {
	o.mutex.Lock()
	o.closed = true
	o.mutex.Unlock()
	if o.stop != nil {
		o.stop()
	}
	o.workers.Wait()
}
