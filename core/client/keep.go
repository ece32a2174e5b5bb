package client

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"prosody/core/clock"
	"prosody/core/config"
	"prosody/core/consumer"
	"prosody/core/entity"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/loader"
	"prosody/core/pipeline/deferral"
	"prosody/core/pipeline/durable"
	"prosody/core/publish"
	"prosody/core/state"
	"prosody/core/store"
	"prosody/core/store/cassandra"
	"prosody/core/store/disk"
	"prosody/core/timer"
)

// connecting bounds the time to reach the store and to make its tables.
const connecting = time.Minute

// backend is where everything durable is.
type backend interface {
	store.Store
	store.Catalog
}

// firing is how many timers are at work at once, at least. Handlers wait for a permit; this
// keeps them from waiting for the writes of those before.
const firing = 1024

// connect opens the store of a plan: that of mock mode, which clients with the same
// servers share, or Cassandra.
func connect(plan *Plan, deps Deps) (backend, error) {
	settings := plan.config
	if settings.Mock {
		return deps.Stores.Store(strings.Join(settings.BootstrapServers, ",")), nil
	}
	options := cassandra.Options{
		Nodes:       settings.CassandraNodes,
		Keyspace:    settings.CassandraKeyspace,
		User:        settings.CassandraUser,
		Password:    settings.CassandraPassword,
		Datacenter:  settings.CassandraDatacenter,
		Rack:        settings.CassandraRack,
		Retention:   settings.CassandraRetention,
		Replication: settings.CassandraReplication,
		Verify:      settings.CassandraSchema == config.SchemaVerify,
		Clock:       deps.Clock,
		Log:         deps.Log.With("target", "prosody.store"),
	}
	if settings.CassandraTLS {
		options.TLS = &cassandra.TLS{
			CA: settings.CassandraTLSCA, Cert: settings.CassandraTLSCert, Key: settings.CassandraTLSKey,
			Verify: settings.CassandraTLSVerify,
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), connecting)
	defer cancel()
	opened, err := cassandra.Open(ctx, options)
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, "failed to initialize store")
	}
	return opened, nil
}

// keep is what one consumer knows durably. It is the consumer's ledger.
type keep struct {
	durable.Ledger
	timers   *timer.Timers
	loader   *loader.Loader
	board    *deferral.Board
	state    *state.Registry
	disk     *disk.Cache // nil: none
	owner    *publish.Owner
	consumer atomic.Pointer[consumer.Consumer]
}

func (c *Client) keep() (*keep, error) {
	settings := c.plan.config
	cache, err := c.cache()
	if err != nil {
		return nil, err
	}
	made := &keep{disk: cache, board: deferral.NewBoard(settings.DeferStoreCacheSize), loader: loader.New(loader.Options{
		Cluster: c.plan.cluster(c.deps.Memory), Servers: settings.BootstrapServers, Properties: settings.Kafka,
		Timeout: settings.LoaderSeekTimeout, Discard: settings.LoaderDiscardThreshold, Cache: settings.LoaderCacheSize,
		Log: c.target("prosody.loader"),
	})}
	made.Keeper = entity.New(entity.Options{
		Store: c.store, Disk: cache, Group: settings.GroupID, Version: settings.IdempotenceVersion, TTL: settings.IdempotenceTTL,
		Cache: settings.IdempotenceCacheSize, Bytes: settings.StateOwnedCacheSize, Slab: settings.SlabSize,
		Recovery: settings.StateRecoveryDelay, Clock: c.deps.Clock, Log: c.target("prosody.entity"), Observer: made, Alive: made.alive,
	})
	made.owner = &publish.Owner{
		Catalog: c.store, Group: settings.GroupID, Subsystem: settings.Subsystem, Topics: settings.SubscribedTopics,
		Collections: settings.Collections, Clock: c.deps.Clock, Log: c.target("prosody.state"),
	}
	made.state = state.New(state.Options{
		Collections: settings.Collections, Read: made.loader.Read, Kept: made.loader.Kept,
		Clock: c.deps.Clock, Bytes: settings.StateOwnedCacheSize / 8,
	})
	made.timers = timer.New(timer.Options{
		Index: c.store, Open: made.open, Count: made.count, Fault: c.deps.Fault, Slab: settings.SlabSize,
		Limit: max(firing, 2*settings.MaxUncommitted), Clock: c.deps.Clock, Log: c.target("prosody.timer"),
	})
	return made, nil
}

// cache opens the disk cache. A directory that nobody asked for need not work.
func (c *Client) cache() (*disk.Cache, error) {
	settings := c.plan.config
	log := c.target("prosody.state")
	made, err := disk.Open(disk.Options{
		Dir: settings.StateCacheDir, Memory: settings.StateMemtableSize, Bytes: settings.StateDiskCacheSize, Clock: clock.Real{}, Log: log,
	})
	switch {
	case err == nil:
		return made, nil
	case settings.Origin("state_cache_dir") != config.Defaulted:
		return nil, fault.New(fault.Config, "state_cache_dir: %q cannot be used: it must be a directory that this process may write: %s", settings.StateCacheDir, err)
	}
	log.Warn("there is no disk cache; state that has no room in memory is read from the store again",
		"option", "state_cache_dir", "directory", settings.StateCacheDir, "error", err)
	return nil, nil
}

func (k *keep) open(ctx context.Context, lease timer.Lease, key string) (timer.Key, error) {
	given, ok := lease.(*entity.Lease)
	if !ok {
		return nil, fault.New(fault.Internal, "a lease of an unknown kind")
	}
	return given.Open(ctx, key)
}

func (k *keep) alive() bool {
	running := k.consumer.Load()
	return running == nil || running.Alive()
}

func (k *keep) count(topic string) (int, bool) {
	if running := k.consumer.Load(); running != nil {
		return running.Count(topic)
	}
	return 0, false
}

// Changed passes on what a commit has changed.
func (k *keep) Changed(lease *entity.Lease, key string, change entity.Change) {
	k.timers.Changed(lease, key, change)
}

// Found passes on what is due of a key.
func (k *keep) Found(lease *entity.Lease, key string, seconds []int64, due int64) {
	k.timers.Found(lease, key, seconds, due)
}

// Assign begins an assignment.
func (k *keep) Assign(name kafka.Partition, _ context.Context) any {
	lease := k.Keeper.Assign(name)
	k.loader.Drop(name)
	k.board.Drop(name)
	k.owner.Assigned(name.Topic)
	k.timers.Assign(lease)
	return lease
}

// End gives an assignment up.
func (k *keep) End(lease any) {
	k.Ledger.End(lease)
	if given, ok := lease.(*entity.Lease); ok {
		k.timers.Leave(given)
	}
}

// close ends what works in the background.
func (k *keep) close() error {
	k.timers.Close()
	k.owner.Close()
	var failed error
	if err := k.loader.Close(); err != nil {
		failed = errors.Join(errors.New("the loader of records did not close"), err)
	}
	if err := k.disk.Close(); err != nil {
		failed = errors.Join(failed, errors.New("the disk cache was not removed"), err)
	}
	return failed
}

// register records the consumer's collections where services find them.
func (k *keep) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connecting)
	defer cancel()
	return k.owner.Register(ctx)
}

// Published makes a reader of what a subsystem publishes. It needs no subscription and
// reads nothing yet. A window of 0 keeps nothing; nil: as state_read_cache says.
func (c *Client) Published(subsystem string, identity state.Identity, window *time.Duration) (*publish.Reader, error) {
	c.mutex.Lock()
	over := c.phase >= closing
	c.mutex.Unlock()
	if over {
		return nil, errClosed()
	}
	return c.readers.Open(subsystem, identity, window)
}
