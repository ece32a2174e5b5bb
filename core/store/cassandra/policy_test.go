package cassandra

import (
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"prosody/core/fault"
)

// statement is a request with a key and nothing else.
type statement struct{ gocql.ExecutableStatement }

func (statement) GetRoutingKey() ([]byte, error) { return []byte("key"), nil }
func (statement) Keyspace() string               { return "k" }

func TestNoNodeIsKnown(t *testing.T) {
	for _, rack := range []string{"", "rack"} {
		p := policy("dc", rack)
		p.SetPartitioner("org.apache.cassandra.dht.Murmur3Partitioner")
		require.Nil(t, p.Pick(statement{})())
	}
}

func TestPanicOfTheDriverIsAnError(t *testing.T) {
	err := guard("Apply", func() error { panic("driver") })
	require.ErrorContains(t, err, "driver")
	require.Equal(t, fault.Store, fault.Of(err))
}
