package metric

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"prosody/core/consumer"
	"prosody/core/observe"
	"prosody/core/partition"
)

// BenchmarkPage is one look at /metrics of a client with 3,000 partitions.
func BenchmarkPage(b *testing.B) {
	facts := full()
	facts.Consumer.Partitions = nil
	for i := range 3000 {
		facts.Consumer.Partitions = append(facts.Consumer.Partitions,
			consumer.Partition{PartitionFact: partition.PartitionFact{Topic: "orders", Partition: int32(i)}, End: 20, Lag: 12})
	}
	page, err := NewPage(func() *observe.Facts { return facts })
	require.NoError(b, err)
	defer func() { require.NoError(b, page.Close(b.Context())) }()
	for b.Loop() {
		answer := httptest.NewRecorder()
		page.ServeHTTP(answer, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", nil))
		require.Equal(b, http.StatusOK, answer.Code)
	}
}
