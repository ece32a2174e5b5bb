package memory

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"prosody/core/kafka/kafkatest"
)

func TestContract(t *testing.T) {
	var names atomic.Int64
	kafkatest.Run(t, func(t testing.TB) kafkatest.Harness {
		b := NewRegistry(Settings{}).Broker("test")
		return kafkatest.Harness{
			Cluster: b,
			Servers: []string{"test"},
			Topic:   func() string { return fmt.Sprint("name-", names.Add(1)) },
			Grow: func(t testing.TB, topic string, total int) {
				require.NoError(t, (&Admin{broker: b}).AddPartitions(t.Context(), topic, total))
			},
			Settle: 40 * time.Second,
		}
	})
}
