package confluent

import (
	"context"
	"crypto/rand"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	library "github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/kafka"
	"prosody/core/kafka/kafkatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// servers are the brokers of the tests that need real ones.
func servers(t testing.TB) []string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real broker; left out by -short")
	}
	address := os.Getenv("PROSODY_TEST_KAFKA")
	if address == "" {
		address = "localhost:9094"
	}
	connection, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		t.Fatalf("no Kafka at %s: start one (make services), name one in PROSODY_TEST_KAFKA, or run with -short: %v", address, err)
	}
	_ = connection.Close()
	return []string{address}
}

func fresh() string { return "prosody-test-" + strings.ToLower(rand.Text()[:12]) }

// tools is a plain admin client for what the port does not offer.
func tools(t testing.TB) *library.AdminClient {
	t.Helper()
	client, err := library.NewAdminClient(&library.ConfigMap{"bootstrap.servers": strings.Join(servers(t), ",")})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func expand(t testing.TB, topic string, total int) {
	t.Helper()
	results, err := tools(t).CreatePartitions(context.Background(), []library.PartitionsSpecification{{Topic: topic, IncreaseTo: total}})
	require.NoError(t, err)
	require.Equal(t, library.ErrNoError, results[0].Error.Code(), results[0].Error.String())
}

func TestContract(t *testing.T) {
	kafkatest.Run(t, func(t testing.TB) kafkatest.Harness {
		return kafkatest.Harness{Cluster: Cluster{}, Servers: servers(t), Topic: fresh, Grow: expand}
	})
}

func makeTopic(t testing.TB, partitions int, config map[string]string) string {
	t.Helper()
	name := fresh()
	create(t, name, partitions, config)
	t.Cleanup(func() { remove(t, name) })
	return name
}

func create(t testing.TB, name string, partitions int, config map[string]string) {
	t.Helper()
	admin, err := Cluster{}.Admin(servers(t), nil)
	require.NoError(t, err)
	defer admin.Close()
	require.NoError(t, admin.Create(context.Background(), kafka.Topic{Name: name, Partitions: partitions, Replication: 1, Config: config}))
}

func remove(t testing.TB, name string) {
	t.Helper()
	admin, err := Cluster{}.Admin(servers(t), nil)
	require.NoError(t, err)
	defer admin.Close()
	require.NoError(t, admin.Delete(context.Background(), name))
}

// problemOf is the port's error in err.
func problemOf(t *testing.T, err error) *kafka.Error {
	t.Helper()
	var problem *kafka.Error
	require.ErrorAs(t, err, &problem)
	return problem
}
