package cassandra

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"prosody/core/fault"
	"prosody/core/store"
	"prosody/core/store/storetest"
)

// admin is a session of its own, to make and look at keyspaces.
func admin(t *testing.T) *gocql.Session {
	t.Helper()
	if testing.Short() {
		t.Skip("needs Cassandra")
	}
	cluster := gocql.NewCluster(nodes()...)
	cluster.Timeout, cluster.ConnectTimeout = 2*time.Minute, time.Minute
	cluster.Metadata.CacheMode = gocql.KeyspaceOnly
	session, err := cluster.CreateSession()
	require.NoError(t, err, "Cassandra must answer at %v (PROSODY_TEST_CASSANDRA); -short leaves it out", nodes())
	t.Cleanup(session.Close)
	return session
}

// vacant is the name of a keyspace that is not there, and goes at the end.
func vacant(t *testing.T, session *gocql.Session) string {
	name := fmt.Sprintf("Test_%d", time.Now().UnixNano())
	t.Cleanup(func() { require.NoError(t, session.Query("DROP KEYSPACE IF EXISTS "+quote(name)).Exec()) })
	return name
}

func try(t *testing.T, options Options) error {
	options.Nodes = nodes()
	s, err := Open(t.Context(), options)
	if err == nil {
		require.NoError(t, s.Close())
	}
	return err
}

func usable(t *testing.T, made *Store) {
	s := storetest.Patient(made)
	key := store.Key{Group: "g", Topic: "t", Key: name(t)}
	require.NoError(t, s.Apply(t.Context(), key, store.Batch{Stamp: 10, Root: []byte("r"), Puts: []store.Put{put("a", "1")}}))
	require.NoError(t, s.AddHint(t.Context(), store.Shard{Group: key.Key}, store.Slab{Size: 1}, "k", 10, time.Hour))
	data, err := s.Root(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, "r", string(data))
}

func TestEightStartAtOnce(t *testing.T) {
	keyspace := vacant(t, admin(t))
	var group sync.WaitGroup
	stores := make([]*Store, 8)
	errs := make([]error, 8)
	began := time.Now()
	for i := range stores {
		group.Go(func() { stores[i], errs[i] = Open(context.Background(), Options{Nodes: nodes(), Keyspace: keyspace}) })
	}
	group.Wait()
	t.Logf("all are open after %v", time.Since(began))
	for i := range stores {
		require.NoError(t, errs[i])
		usable(t, stores[i])
		require.NoError(t, stores[i].Close())
	}
	began = time.Now()
	require.NoError(t, try(t, Options{Keyspace: keyspace}))
	t.Logf("one more took %v", time.Since(began))
	require.NoError(t, try(t, Options{Keyspace: keyspace, Verify: true}))
}

func TestHalfMadeSchemaIsCompleted(t *testing.T) {
	session := admin(t)
	keyspace := vacant(t, session)
	require.NoError(t, session.Query("CREATE KEYSPACE "+quote(keyspace)+" WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}").Exec())
	half := tables()[:2]
	half[0].columns = half[0].columns[:6]
	for _, table := range half {
		require.NoError(t, session.Query(table.create(keyspace, "", true)).Exec())
	}
	err := try(t, Options{Keyspace: keyspace, Verify: true})
	require.Equal(t, fault.Config, fault.Of(err))
	require.ErrorContains(t, err, "table slab is missing; table identity is missing; table publication is missing; table directory is missing; table version is missing; column is missing: entity ADD data blob")

	usable(t, connect(t, Options{Keyspace: keyspace}))
	var class map[string]string
	require.NoError(t, session.Query("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?", keyspace).Scan(&class))
	require.Contains(t, class["class"], "NetworkTopologyStrategy", "an existing keyspace was changed")
}

func TestWrongOptionsAreNamed(t *testing.T) {
	session := admin(t)
	keyspace := vacant(t, session)
	refused := func(options Options, text string) {
		t.Helper()
		options.Keyspace = keyspace
		err := try(t, options)
		require.ErrorContains(t, err, text)
		require.Equal(t, fault.Config, fault.Of(err), "%v", err)
	}
	refused(Options{Verify: true}, "does not exist")
	refused(Options{Datacenter: "nowhere"}, `cassandra_datacenter "nowhere" is not one of `)
	refused(Options{Replication: "Simple:1"}, "cassandra_replication: must be like")
	refused(Options{Replication: "NetworkTopologyStrategy:nowhere=1"}, "cassandra_replication")
	refused(Options{TLS: &TLS{CA: "absent.pem"}}, "cassandra_tls_ca")

	require.NoError(t, try(t, Options{Keyspace: keyspace, Replication: "NetworkTopologyStrategy:datacenter1=1", Datacenter: "datacenter1", Rack: "rack1"}))
	require.NoError(t, session.Query("INSERT INTO "+quote(keyspace)+".version (id, version) VALUES (0, 99)").Exec())
	refused(Options{}, "version 99")
	require.NoError(t, session.Query("DROP TABLE "+quote(keyspace)+".slab").Exec())
	require.NoError(t, session.Query("CREATE TABLE "+quote(keyspace)+".slab (group_id text, topic text, partition int, slab_start int, slab_size bigint, PRIMARY KEY ((group_id, topic, partition), slab_start, slab_size))").Exec())
	refused(Options{}, "slab.slab_start is not the clustering of Prosody (bigint)")
}

func TestStatementsOfTables(t *testing.T) {
	entity := tables()[0]
	require.Equal(t, `CREATE TABLE IF NOT EXISTS "K".entity (group_id text, topic text, key blob, kind tinyint, name text, coordinate blob, data blob, `+
		`PRIMARY KEY ((group_id, topic, key), kind, name, coordinate)) WITH gc_grace_seconds = 864000 `+
		`AND compaction = {'class': 'X'} AND compression = {'class': 'ZstdCompressor'}`, entity.create("K", "X", false))
}

func TestTimeToLive(t *testing.T) {
	s := &Store{clock: fixed(1_800_000_000), horizon: old}
	require.Equal(t, int64(0), s.ttl(0))
	require.Equal(t, int64(0), s.ttl(-time.Second))
	require.Equal(t, int64(1), s.ttl(time.Nanosecond))
	require.Equal(t, int64(2), s.ttl(1001*time.Millisecond))
	require.Equal(t, int64(86400*3650), s.ttl(3650*24*time.Hour))
	require.Equal(t, int64(0), s.ttl(12*365*24*time.Hour), "it would end after 2038")
	s.horizon = modern
	require.Equal(t, int64(630720000), s.ttl(store.MaxTTL))
	require.Equal(t, int64(0), s.ttl(store.MaxTTL+time.Second))
}
