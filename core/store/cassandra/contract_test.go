package cassandra

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"prosody/core/store"
	"prosody/core/store/storetest"
)

// nodes are those of the Cassandra that tests use.
func nodes() []string {
	if text := os.Getenv("PROSODY_TEST_CASSANDRA"); text != "" {
		return strings.Split(text, ",")
	}
	return []string{"localhost:9042"}
}

// shared is the keyspace of tests that do not care about its schema.
const shared = "prosody_store_test"

func connect(t testing.TB, options Options) *Store {
	t.Helper()
	if testing.Short() {
		t.Skip("needs Cassandra")
	}
	if options.Nodes == nil {
		options.Nodes = nodes()
	}
	if options.Keyspace == "" {
		options.Keyspace = shared
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s, err := Open(ctx, options)
	require.NoError(t, err, "Cassandra must answer at %v (PROSODY_TEST_CASSANDRA); -short leaves it out", options.Nodes)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestContract(t *testing.T) {
	s := connect(t, Options{})
	storetest.Run(t, func(t *testing.T) storetest.World {
		return storetest.World{Store: storetest.Patient(s), Pass: time.Sleep}
	})
}

func TestDirectory(t *testing.T) { storetest.Directory(t, storetest.Patient(connect(t, Options{}))) }

// Services of the peer have a directory of their own in the keyspace, once they come.
func TestBothDirectories(t *testing.T) {
	s, session := storetest.Patient(connect(t, Options{})), admin(t)
	table := quote(shared) + "." + foreign
	change := func(statement string, values ...any) {
		t.Helper()
		require.NoError(t, session.Query(statement, values...).ExecContext(t.Context()))
	}
	change("DROP TABLE IF EXISTS " + table)
	p := store.Peer{ID: [16]byte{1, 2}, Direct: "127.0.0.1:1", Host: "h"}
	require.NoError(t, s.Enroll(t.Context(), p, time.Minute))
	change("CREATE TABLE " + table + " (peer_id uuid PRIMARY KEY, advertised_connect text, direct_socket_address text, hostname text, network text)")
	defer change("DROP TABLE " + table)
	require.NoError(t, s.Enroll(t.Context(), p, time.Minute), "a renewal is there too")
	count := func() (number int) {
		require.NoError(t, session.Query("SELECT count(*) FROM "+table).ScanContext(t.Context(), &number))
		return number
	}
	require.Equal(t, 1, count())
	other := gocql.UUID{9}
	change("INSERT INTO "+table+" (peer_id, direct_socket_address, hostname) VALUES (?, '127.0.0.1:2', 'x')", other)
	found, there, err := s.Locate(t.Context(), other)
	require.NoError(t, err)
	require.True(t, there)
	require.Equal(t, store.Peer{ID: other, Direct: "127.0.0.1:2", Host: "x"}, found)
	require.NoError(t, s.Withdraw(t.Context(), p.ID))
	require.Equal(t, 1, count())
}

func TestCatalog(t *testing.T) { storetest.Catalog(t, storetest.Patient(connect(t, Options{}))) }
