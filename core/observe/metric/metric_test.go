package metric

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"

	"prosody/core/consumer"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/loader"
	"prosody/core/observe"
	"prosody/core/observe/topic"
	"prosody/core/partition"
	"prosody/core/pipeline"
	"prosody/core/pipeline/gate"
	"prosody/core/pipeline/mode"
	"prosody/core/pipeline/monopoly"
	"prosody/core/producer"
	"prosody/core/respond"
	"prosody/core/state"
	"prosody/core/store/disk"
	"prosody/core/tally"
	"prosody/core/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "customer-4711"

func took(seconds float64) tally.Durations {
	var h tally.Histogram
	h.Note(time.Duration(seconds * 1e9))
	return h.Snapshot()
}

// full is facts with something in each part.
func full() *observe.Facts {
	return &observe.Facts{
		Client: "prosody-1", State: "running", Stalled: []string{"the poll loop"}, Outages: []string{"the broker"},
		Producer: producer.Stats{Pending: 1, Sent: 2, Failed: 3, Duplicates: 4, Timeouts: 5, Late: 6},
		Asked:    took(0.1), Answers: &respond.Stats{Delivered: 3},
		Sends: map[string]observe.Durations{producer.Done: took(0.02), "timeout": took(2)},
		Store: map[observe.Call]observe.Durations{{Operation: "apply"}: took(0.003), {Operation: "get", Fault: "store"}: took(1)},
		Pipeline: &pipeline.Snapshot{
			Attempts: 7, Retries: 8, Waiting: 9,
			Times: map[pipeline.Attempt]tally.Durations{
				{Topic: "orders", Kind: event.Message, Class: pipeline.Success}:   took(0.2),
				{Topic: "orders", Kind: event.Message, Class: pipeline.Transient}: took(0.4),
				{}: took(5),
			},
		},
		Chain: &mode.Facts{
			Permits: 32, Used: 3, Gates: []gate.Fact{{Topic: "orders", Events: 100, Failures: 95, Rate: 0.95}},
			Monopolized: 1, Monopolies: []monopoly.Fact{{Topic: "orders", Key: secret, Share: 0.99}},
		},
		Consumer: &consumer.Snapshot{
			Group: "shop", Joined: true, Facts: partition.Facts{Counters: partition.Counters{Received: 10, Invalid: 1, Succeeded: 9}},
			Partitions: []consumer.Partition{
				{PartitionFact: partition.PartitionFact{Topic: "orders", Partition: 2, Running: 1, Waiting: 4, Oldest: 1.5, Paused: true}, End: 20, Lag: 12},
				{PartitionFact: partition.PartitionFact{Topic: "orders", Partition: 3}, End: -1, Lag: -1},
			},
		},
		Timers: &timer.Facts{Waiting: 5, Overdue: 1, Oldest: 3, Late: took(0.9)},
		Keys: &entity.Facts{Loaded: 6, Bytes: 700, Unwritten: 1, Hits: 3, Loads: 2, Commits: 5, Failures: 1,
			Disk: &disk.Facts{Bytes: 1 << 20, Limit: 1 << 30, Entries: 12, Keys: disk.Lookups{Hits: 2, Misses: 1}, Faults: 1}},
		Cells:     &state.Facts{Hits: 4, Misses: 1, Cells: 9, Reads: took(0.01)},
		Telemetry: &topic.Facts{Sent: 4, Dropped: 1},
		Records:   &loader.Facts{Hits: 1, Reads: 2, Failures: 1},
	}
}

func TestNamesUnitsAndTextsAreProper(t *testing.T) {
	seen := map[string]bool{}
	for _, each := range Instruments() {
		assert.False(t, seen[each.Name], "%s is there twice", each.Name)
		seen[each.Name] = true
		assert.Regexp(t, `^(messaging|db\.client|prosody)(\.[a-z_]+)+$`, each.Name)
		assert.Regexp(t, `^(s|By|1|\{[a-z]+\})$`, each.Unit, each.Name)
		assert.Regexp(t, `^[A-Z0-9].*\.$`, each.Help, each.Name)
	}
}

// labels are all labels that there may be. A key of an event is none.
var labels = map[string]bool{
	"messaging.system": true, "messaging.client.id": true, "messaging.consumer.group.name": true,
	"messaging.destination.name": true, "messaging.destination.partition.id": true, "messaging.operation.name": true,
	"error.type": true, "db.operation.name": true, "prosody.event.kind": true, "prosody.reason": true,
	"prosody.outcome": true, "prosody.cache": true, "prosody.disposition": true, "prosody.result": true,
}

func TestEachInstrumentTellsAndNoKeyIsALabel(t *testing.T) {
	registry := New()
	remove := registry.Add(full)
	defer remove(nil)
	made, err := registry.Produce(t.Context())
	require.NoError(t, err)
	require.Len(t, made, 1)
	told := map[string]bool{}
	for _, each := range made[0].Metrics {
		told[each.Name] = true
		for _, attributes := range sets(each) {
			for name, value := range attributes {
				assert.True(t, labels[name], "%s has the label %s", each.Name, name)
				assert.NotContains(t, value, secret, each.Name)
			}
			assert.Equal(t, "shop", attributes["messaging.consumer.group.name"])
		}
	}
	for _, each := range Instruments() {
		assert.True(t, told[each.Name], "%s tells nothing of a client that does everything", each.Name)
	}
}

func sets(of metricdata.Metrics) (list []map[string]string) {
	note := func(set map[string]string) { list = append(list, set) }
	switch data := of.Data.(type) {
	case metricdata.Sum[float64]:
		for _, p := range data.DataPoints {
			note(words(p.Attributes))
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			note(words(p.Attributes))
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			note(words(p.Attributes))
		}
	}
	return list
}

func words(set attribute.Set) map[string]string {
	made := map[string]string{}
	for _, each := range set.ToSlice() {
		made[string(each.Key)] = each.Value.String()
	}
	return made
}

func TestAClientWithoutAConsumerTellsOfItsProducer(t *testing.T) {
	registry := New()
	defer registry.Add(func() *observe.Facts {
		return &observe.Facts{Client: "prosody-2", Producer: producer.Stats{Sent: 3}}
	})(nil)
	made, err := registry.Produce(t.Context())
	require.NoError(t, err)
	for _, each := range made[0].Metrics {
		assert.NotContains(t, each.Name, "prosody.partition")
		for _, set := range sets(each) {
			assert.NotContains(t, set, "messaging.consumer.group.name")
		}
	}
}

// What a client did before it was closed is told once more, also by a reader of OTLP that
// comes after its end.
func TestTheLastFactsAreToldOnce(t *testing.T) {
	registry := New()
	reader := sdk.NewManualReader(sdk.WithProducer(registry))
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	defer func() { require.NoError(t, provider.Shutdown(context.Background())) }()
	remove := registry.Add(full)
	remove(full())
	remove(full())
	for _, want := range []int{1, 0} {
		var made metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &made))
		require.Len(t, made.ScopeMetrics, want)
	}
	for range 3 * most {
		registry.Add(full)(full())
	}
	require.Len(t, registry.take(), most)
}

// scrape reads a page as Prometheus does.
func scrape(t *testing.T, source Source) map[string]*dto.MetricFamily {
	t.Helper()
	page, err := NewPage(source)
	require.NoError(t, err)
	defer func() { require.NoError(t, page.Close(context.Background())) }()
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, 200, answer.Code, string(body))
	problems, err := promlint.New(bytes.NewReader(body)).Lint() // as promtool check metrics
	require.NoError(t, err)
	require.Empty(t, problems)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	require.NoError(t, err)
	return families
}

func TestPrometheusReadsThePage(t *testing.T) {
	families := scrape(t, full)
	for _, each := range Instruments() {
		assert.Contains(t, families, Prometheus(each), each.Name)
	}
	lag := families["prosody_partition_lag"].GetMetric()
	require.Len(t, lag, 1, "a lag that is not known is not told")
	require.InDelta(t, 12, lag[0].GetGauge().GetValue(), 0)
	for _, each := range families["messaging_process_duration_seconds"].GetMetric() {
		require.EqualValues(t, 1, each.GetHistogram().GetSampleCount())
	}
	require.Len(t, families["messaging_process_duration_seconds"].GetMetric(), 3)
	require.Contains(t, families, "go_goroutines")
}

// A group may have any name. It stays within its label.
func TestNamesStayWithinTheirLabels(t *testing.T) {
	for _, name := range []string{"a\"} 1\nforged 2\n#", `\`, "\\\n", "Größe 😀", strings.Repeat("g", 5000), "\xff\xfe", "\x00"} {
		facts := full()
		facts.Consumer.Group = name
		families := scrape(t, func() *observe.Facts { return facts })
		require.NotContains(t, families, "forged")
		lag := families["prosody_partition_lag"].GetMetric()
		require.Len(t, lag, 1)
		found := ""
		for _, label := range lag[0].GetLabel() {
			if label.GetName() == "messaging_consumer_group_name" {
				found = label.GetValue()
			}
		}
		require.Equal(t, strings.ToValidUTF8(name, "\uFFFD"), found)
	}
}

func BenchmarkCollect(b *testing.B) {
	facts := full()
	for i := range 100 {
		facts.Consumer.Partitions = append(facts.Consumer.Partitions, consumer.Partition{
			PartitionFact: partition.PartitionFact{Topic: "orders", Partition: int32(i + 10)},
		})
	}
	registry := New()
	defer registry.Add(func() *observe.Facts { return facts })(nil)
	for b.Loop() {
		if _, err := registry.Produce(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
