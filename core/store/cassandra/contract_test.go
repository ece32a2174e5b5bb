package cassandra

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Open(ctx, options)
	require.NoError(t, err, "Cassandra must answer at %v (PROSODY_TEST_CASSANDRA); -short leaves it out", options.Nodes)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestContract(t *testing.T) {
	s := connect(t, Options{})
	storetest.Run(t, func(t *testing.T) storetest.World {
		return storetest.World{Store: s, Pass: time.Sleep}
	})
}

func TestCatalog(t *testing.T) { storetest.Catalog(t, connect(t, Options{})) }
