//go:build rights

package cassandra

import (
	"os"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"prosody/core/fault"
)

// A Cassandra that checks passwords and rights: PROSODY_TEST_CASSANDRA_AUTH is its
// address, with its first superuser. scripts/rights.sh starts one and runs the test.
func TestRights(t *testing.T) {
	node := os.Getenv("PROSODY_TEST_CASSANDRA_AUTH")
	require.NotEmpty(t, node, "PROSODY_TEST_CASSANDRA_AUTH names no Cassandra")
	const first, password = "cassandra", "an0ther-s3cret"
	cluster := gocql.NewCluster(node)
	cluster.Timeout = 30 * time.Second
	cluster.Authenticator = gocql.PasswordAuthenticator{Username: first, Password: first}
	session, err := cluster.CreateSession()
	require.NoError(t, err)
	t.Cleanup(session.Close)
	keyspace := vacant(t, session)
	require.NoError(t, session.Query("CREATE ROLE IF NOT EXISTS reader WITH LOGIN = true AND PASSWORD = '"+password+"'").Exec())
	open := func(user, password string, verify bool) error {
		s, err := Open(t.Context(), Options{Nodes: []string{node}, Keyspace: keyspace, User: user, Password: password, Verify: verify})
		if err == nil {
			usable(t, s)
			require.NoError(t, s.Close())
		}
		return err
	}
	refused := func(err error, text string) {
		t.Helper()
		require.ErrorContains(t, err, text)
		require.NotContains(t, err.Error(), password)
		require.Equal(t, fault.Config, fault.Of(err))
	}
	refused(open("reader", "wrong "+password, false), "cassandra_user and cassandra_password")
	refused(open("", "", false), "cassandra_user and cassandra_password")
	began := time.Now()
	refused(open("reader", password, false), "cassandra_user may not change the schema")
	refused(open("reader", password, true), "does not exist")
	require.Less(t, time.Since(began), 45*time.Second, "nobody waits for what will not be")

	require.NoError(t, open(first, first, false))
	refused(open("reader", password, true), "cassandra_user may not use the keyspace")
	for _, right := range []string{"SELECT", "MODIFY"} {
		require.NoError(t, session.Query("GRANT "+right+" ON KEYSPACE "+quote(keyspace)+" TO reader").Exec())
	}
	require.Eventually(t, func() bool { return open("reader", password, true) == nil }, 2*time.Minute, time.Second)
	require.NoError(t, open("reader", password, false), "nothing was to be created")
}
