package cassandra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"prosody/core/clock"
	"prosody/core/config"
	"prosody/core/fault"
)

// settle is how long the schema may take to become complete, with others at it too.
const settle = time.Minute

// migration brings a keyspace to what it has to be. Every statement may run again, so
// any number of processes can do it at once and finish what another left half-done. They
// send changes to the same node where they can, which then makes them one by one.
type migration struct {
	session *gocql.Session
	options *Options
	hosts   []*gocql.HostInfo // by id
}

// prepare creates or verifies the schema and tells the datacenter to use.
func prepare(ctx context.Context, options *Options) (string, error) {
	cluster, err := options.cluster()
	if err != nil {
		return "", err
	}
	cluster.NumConns = 1
	cluster.PoolConfig.HostSelectionPolicy = gocql.RoundRobinHostPolicy()
	session, err := cluster.CreateSession()
	if err != nil {
		if strings.Contains(err.Error(), "authenticat") || strings.Contains(err.Error(), "password") {
			return "", fault.Wrap(fault.Config, err, "cassandra_user and cassandra_password")
		}
		return "", err
	}
	defer session.Close()
	m := &migration{session: session, options: options, hosts: session.GetHosts()}
	slices.SortFunc(m.hosts, func(a, b *gocql.HostInfo) int { return cmp.Compare(a.HostID(), b.HostID()) })
	datacenter, err := m.datacenter()
	if err != nil {
		return "", err
	}
	return datacenter, m.run(ctx)
}

// datacenter is the option's, or the only one.
func (m *migration) datacenter() (string, error) {
	known := datacenters(m.hosts)
	wanted := m.options.Datacenter
	if wanted == "" && len(known) == 1 {
		return known[0], nil
	}
	if wanted == "" {
		return "", fault.New(fault.Config, "cassandra_datacenter must name one of %s", strings.Join(known, ", "))
	}
	if !slices.Contains(known, wanted) {
		return "", fault.New(fault.Config, "cassandra_datacenter %q is not one of %s", wanted, strings.Join(known, ", "))
	}
	return wanted, nil
}

func (m *migration) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for {
		left, err := m.step(ctx)
		if err == nil && left == "" {
			return nil
		}
		if fault.Of(err) == fault.Config {
			return err
		}
		pause := 50*time.Millisecond + rand.N(250*time.Millisecond)
		if ended := clock.Sleep(ctx, clock.Real{}, pause); ended != nil {
			if err == nil {
				err = errors.New(left)
			}
			return fmt.Errorf("the schema of keyspace %q did not become complete: %w", m.options.Keyspace, err)
		}
	}
}

// step does what is to do now and says what is left.
func (m *migration) step(ctx context.Context) (string, error) {
	name := m.options.Keyspace
	err := m.session.Query("SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?", name).
		Consistency(gocql.One).ScanContext(ctx, new(string))
	if errors.Is(err, gocql.ErrNotFound) {
		if m.options.Verify {
			return "", fault.New(fault.Config, "keyspace %q does not exist", name)
		}
		return "the keyspace is new", m.keyspace(ctx)
	}
	if err != nil {
		return "", err
	}
	lack, err := inspect(ctx, m.session, name)
	if err != nil || lack.none() {
		return "", err
	}
	if len(lack.wrong) > 0 || m.options.Verify {
		return "", fault.New(fault.Config, "keyspace %q: %s", name, lack)
	}
	for i := range lack.tables {
		if err := m.table(ctx, &lack.tables[i]); err != nil {
			return "", err
		}
	}
	for _, add := range lack.columns {
		if err := m.change(ctx, fmt.Sprintf("ALTER TABLE %s.%s", quote(name), add)); err != nil {
			return "", err
		}
	}
	return lack.String(), m.session.AwaitSchemaAgreement(ctx)
}

func (m *migration) table(ctx context.Context, t *table) error {
	compaction := "LeveledCompactionStrategy"
	if version := m.hosts[0].Version(); version.AtLeast(5, 0, 0) {
		compaction = "UnifiedCompactionStrategy"
	}
	err := m.change(ctx, t.create(m.options.Keyspace, compaction, false))
	var options *gocql.RequestErrConfig
	if errors.As(err, &options) { // a server with other strategies
		return m.change(ctx, t.create(m.options.Keyspace, "", true))
	}
	return err
}

func (m *migration) keyspace(ctx context.Context) error {
	text := m.options.Replication
	if text == "" {
		if len(m.hosts) != 1 {
			return fault.New(fault.Config, "keyspace %q does not exist and the cluster has %d nodes: cassandra_replication must say how to replicate it, such as NetworkTopologyStrategy:%s=%d",
				m.options.Keyspace, len(m.hosts), datacenters(m.hosts)[0], min(3, len(m.hosts)))
		}
		text = "SimpleStrategy:1"
	}
	parsed, err := config.ParseReplication(text)
	if err != nil {
		return fault.Wrap(fault.Config, err, "cassandra_replication")
	}
	replication := fmt.Sprintf("'class': 'SimpleStrategy', 'replication_factor': %d", parsed.Factor)
	if len(parsed.Datacenters) > 0 {
		replication = "'class': 'NetworkTopologyStrategy'"
		for _, name := range slices.Sorted(maps.Keys(parsed.Datacenters)) {
			replication += fmt.Sprintf(", '%s': %d", name, parsed.Datacenters[name])
		}
	}
	err = m.change(ctx, fmt.Sprintf("CREATE KEYSPACE IF NOT EXISTS %s WITH replication = {%s}", quote(m.options.Keyspace), replication))
	var refused *gocql.RequestErrConfig
	if errors.As(err, &refused) {
		return fault.Wrap(fault.Config, err, "cassandra_replication")
	}
	return err
}

// change runs a statement on the first node, by id, that does it.
func (m *migration) change(ctx context.Context, statement string) error {
	var err error
	for _, host := range m.hosts {
		err = m.session.Query(statement).SetHostID(host.HostID()).ExecContext(ctx)
		if denied(err) {
			return fault.Wrap(fault.Config, err, "cassandra_user may not change the schema (with cassandra_schema=verify it is only looked at)")
		}
		var answer gocql.RequestError
		if err == nil || errors.As(err, &answer) || ctx.Err() != nil {
			return err
		}
	}
	return err
}
