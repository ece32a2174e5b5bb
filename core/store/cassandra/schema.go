package cassandra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"prosody/core/clock"
	"prosody/core/fault"
)

// current is the version of the schema. A later one only adds: tables, or columns that
// may be null.
const current = 1

// table is a table as it has to be.
type table struct {
	name      string
	columns   []column
	partition int // how many columns, from the first, are the partition key
	cluster   int // how many after them are the clustering key
	grace     int // seconds that tombstones are kept
}

type column struct{ name, kind string }

// grace of tombstones: nothing may come back in an entity, where an entry of the index
// that comes back is found useless and removed. Three hours is how long hints for a node
// that is down are kept.
const longGrace, shortGrace = 10 * 24 * 3600, 3 * 3600

func tables() []table {
	return []table{
		{name: "entity", partition: 3, cluster: 3, grace: longGrace, columns: []column{
			{"group_id", "text"}, {"topic", "text"}, {"key", "blob"},
			{"kind", "tinyint"}, {"name", "text"}, {"coordinate", "blob"},
			{"data", "blob"}}},
		{name: "hint", partition: 5, cluster: 1, grace: shortGrace, columns: []column{
			{"group_id", "text"}, {"topic", "text"}, {"partition", "int"}, {"slab_start", "bigint"}, {"slab_size", "bigint"},
			{"key", "blob"}}},
		{name: "slab", partition: 3, cluster: 2, grace: shortGrace, columns: []column{
			{"group_id", "text"}, {"topic", "text"}, {"partition", "int"},
			{"slab_start", "bigint"}, {"slab_size", "bigint"}}},
		{name: "identity", partition: 1, cluster: 1, grace: longGrace, columns: []column{
			{"group_id", "text"}, {"name", "text"}, {"identity", "text"}}},
		{name: "publication", partition: 2, cluster: 2, grace: longGrace, columns: []column{
			{"subsystem", "text"}, {"name", "text"}, {"group_id", "text"}, {"topic", "text"}, {"identity", "text"}}},
		{name: own, partition: 1, grace: longGrace, columns: []column{
			{"peer_id", "uuid"}, {"advertised_connect", "text"}, {"direct_socket_address", "text"}, {"hostname", "text"}, {"network", "text"}}},
		{name: "version", partition: 1, grace: longGrace, columns: []column{
			{"id", "tinyint"}, {"version", "int"}}},
	}
}

// create is the statement that makes a table. Plain leaves out the options that a server
// may not know.
func (t *table) create(keyspace string, compaction string, plain bool) string {
	var text strings.Builder
	fmt.Fprintf(&text, "CREATE TABLE IF NOT EXISTS %s.%s (", quote(keyspace), t.name)
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
		fmt.Fprintf(&text, "%s %s, ", c.name, c.kind)
	}
	key := append([]string{"(" + strings.Join(names[:t.partition], ", ") + ")"}, names[t.partition:t.partition+t.cluster]...)
	fmt.Fprintf(&text, "PRIMARY KEY (%s)) WITH gc_grace_seconds = %d", strings.Join(key, ", "), t.grace)
	if !plain {
		fmt.Fprintf(&text, " AND compaction = {'class': '%s'} AND compression = {'class': 'ZstdCompressor'}", compaction)
	}
	return text.String()
}

// role says what a column is, in the words of system_schema.
func (t *table) role(i int) (kind string, position int) {
	switch {
	case i < t.partition:
		return "partition_key", i
	case i < t.partition+t.cluster:
		return "clustering", i - t.partition
	}
	return "regular", -1
}

// lack is what a keyspace misses.
type lack struct {
	tables  []table
	columns []string // statements' ends: "entity ADD data blob"
	wrong   []string // what is there and not as it has to be
}

func (l *lack) none() bool { return len(l.tables)+len(l.columns)+len(l.wrong) == 0 }

func (l *lack) String() string {
	var parts []string
	for _, t := range l.tables {
		parts = append(parts, "table "+t.name+" is missing")
	}
	for _, c := range l.columns {
		parts = append(parts, "column is missing: "+c)
	}
	return strings.Join(append(parts, l.wrong...), "; ")
}

// inspect compares a keyspace with what has to be there.
func inspect(ctx context.Context, session *gocql.Session, keyspace string) (*lack, error) {
	type place struct{ table, column string }
	type shape struct {
		kind, role, order string
		position          int
	}
	found := map[place]shape{}
	there := map[string]bool{}
	iter := session.Query("SELECT table_name, column_name, type, kind, position, clustering_order FROM system_schema.columns WHERE keyspace_name = ?", keyspace).
		Consistency(gocql.One).IterContext(ctx)
	var at place
	var is shape
	for iter.Scan(&at.table, &at.column, &is.kind, &is.role, &is.position, &is.order) {
		found[at] = is
		there[at.table] = true
	}
	if err := iter.Close(); err != nil {
		return nil, err
	}
	result := &lack{}
	for _, t := range tables() {
		if !there[t.name] {
			result.tables = append(result.tables, t)
			continue
		}
		for i, c := range t.columns {
			role, position := t.role(i)
			is, ok := found[place{t.name, c.name}]
			switch {
			case !ok && role == "regular":
				result.columns = append(result.columns, fmt.Sprintf("%s ADD %s %s", t.name, c.name, c.kind))
			case !ok || is.kind != c.kind || is.role != role || is.position != position || is.order == "desc":
				result.wrong = append(result.wrong, fmt.Sprintf("%s.%s is not the %s of Prosody (%s)", t.name, c.name, role, c.kind))
			}
		}
	}
	return result, nil
}

// quote writes a name as CQL takes it in any case of letters.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// agreed asks for the version until the server knows the table: while others create it
// too, the schema that a server lists may be ahead of the one that it works with.
func (s *Store) agreed(ctx context.Context, verify bool) error {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for {
		err := s.version(ctx, verify)
		var refused gocql.RequestError
		if !errors.As(err, &refused) || refused.Code() != gocql.ErrCodeInvalid {
			return err
		}
		if clock.Sleep(ctx, clock.Real{}, 50*time.Millisecond) != nil {
			return err
		}
	}
}

// version refuses a schema that a later Prosody has changed.
func (s *Store) version(ctx context.Context, verify bool) error {
	var version int
	err := s.session.Query("SELECT version FROM version WHERE id = 0").ScanContext(ctx, &version)
	switch {
	case errors.Is(err, gocql.ErrNotFound) && verify:
		return nil
	case errors.Is(err, gocql.ErrNotFound):
		return s.session.Query("INSERT INTO version (id, version) VALUES (0, ?)", current).ExecContext(ctx)
	case err != nil:
		return err
	case version > current:
		return fault.New(fault.Config, "the keyspace has version %d of the schema, later than %d of this Prosody", version, current)
	}
	return nil
}

// datacenters names those of the cluster.
func datacenters(hosts []*gocql.HostInfo) []string {
	var names []string
	for _, host := range hosts {
		names = append(names, host.DataCenter())
	}
	slices.Sort(names)
	return slices.Compact(names)
}
