// Package cassandra is the store on Apache Cassandra behind the port core/store.
//
// It owns the schema, and two rules: a batch is one mutation of one partition, hence
// atomic and isolated; every write names its timestamp, hence may be sent again.
package cassandra

import (
	"context"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"prosody/core/clock"
	"prosody/core/fault"
	"prosody/core/store"
)

// Store keeps entities in one keyspace of a cluster.
type Store struct {
	session   *gocql.Session
	clock     clock.Clock
	retention time.Duration
	horizon   int64 // seconds; the cluster refuses expiry after it
	slabs     *lru.Cache[registration, int64]
}

var _ store.Store = (*Store)(nil)

// Open connects, and creates or verifies the schema. Its errors are of kind fault.Config
// where other options are needed, else fault.Store.
func Open(ctx context.Context, options Options) (*Store, error) {
	if options.Clock == nil {
		options.Clock = clock.Real{}
	}
	datacenter, err := prepare(ctx, &options)
	if err != nil {
		return nil, failure("Open", err)
	}
	cluster, err := options.cluster()
	if err != nil {
		return nil, err
	}
	cluster.Keyspace = options.Keyspace
	// LOCAL_QUORUM means another quorum in another datacenter, so there is no way there.
	cluster.HostFilter = gocql.DataCenterHostFilter(datacenter)
	cluster.PoolConfig.HostSelectionPolicy = policy(datacenter, options.Rack)
	session, err := cluster.CreateSession()
	if err != nil {
		if strings.Contains(err.Error(), "host was filtered") {
			return nil, fault.Wrap(fault.Config, err, "cassandra_nodes names none in datacenter "+datacenter)
		}
		return nil, failure("Open", err)
	}
	slabs, err := lru.New[registration, int64](registered)
	if err != nil {
		session.Close()
		return nil, failure("Open", err)
	}
	s := &Store{session: session, clock: options.Clock, retention: options.Retention, slabs: slabs}
	if err := s.agreed(ctx, options.Verify); err != nil {
		session.Close()
		if denied(err) {
			return nil, fault.Wrap(fault.Config, err, "cassandra_user may not use the keyspace")
		}
		return nil, failure("Open", err)
	}
	s.horizon = horizon(ctx, session)
	return s, nil
}

// Limits tells what the store accepts. A request to Cassandra may have 8 MiB.
func (s *Store) Limits() store.Limits {
	return store.Limits{MaxBatch: store.MaxBatch, MaxValue: store.MaxValue, Retention: s.retention}
}

// Close ends the connections.
func (s *Store) Close() error {
	s.session.Close()
	return nil
}

// ttl is a time to live as Cassandra takes it: whole seconds, 0 for none. One that ends
// where the cluster cannot count to is none: rows rather stay than be refused.
func (s *Store) ttl(ttl time.Duration) int64 {
	if ttl <= 0 || ttl > store.MaxTTL {
		return 0
	}
	seconds := int64((ttl + time.Second - 1) / time.Second)
	if s.clock.Now().Unix()+seconds >= s.horizon {
		return 0
	}
	return seconds
}

// The ends of time of Cassandra: of its old format, and of the new one that 5.0 writes
// once told to. A day is left for clocks that differ.
const (
	old    = 1<<31 - 2 - 86400 // January 2038
	modern = 1<<32 - 2 - 86400 // February 2106
)

func horizon(ctx context.Context, session *gocql.Session) int64 {
	var mode string
	err := session.Query("SELECT value FROM system_views.settings WHERE name = 'storage_compatibility_mode'").
		Consistency(gocql.One).ScanContext(ctx, &mode)
	if err == nil && mode == "NONE" {
		return modern
	}
	return old
}
