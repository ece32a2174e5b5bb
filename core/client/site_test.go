package client

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"prosody/core/observe/metric"
)

// fetch asks the probe server of a client.
func fetch(t *testing.T, client *Client, path, accept string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fmt.Sprintf("http://127.0.0.1:%d%s", client.Facts().Port, path), nil)
	require.NoError(t, err)
	request.Header.Set("Accept", accept)
	asker := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := asker.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

func scrape(t *testing.T, client *Client) map[string]*dto.MetricFamily {
	t.Helper()
	status, body := fetch(t, client, "/metrics", "text/plain")
	require.Equal(t, http.StatusOK, status)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	return families
}

func TestMockModeOpensNoSocketUnlessAsked(t *testing.T) {
	client := open(t, nil)
	require.NoError(t, client.Subscribe(t.Context(), succeed))
	require.Nil(t, client.current().site)
	require.Equal(t, -1, client.Facts().Port)
}

func TestMetricsTellWhatHappened(t *testing.T) {
	client := open(t, map[string]string{"probe_port": "0", "commit_interval": "20ms"})
	require.NoError(t, client.Subscribe(t.Context(), succeed))
	for i := range 10 {
		send(t, client, fmt.Sprint(i), `{}`)
	}
	require.Eventually(t, func() bool { return client.Facts().Pipeline.Successes == 10 }, 2*time.Minute, time.Millisecond)
	families := scrape(t, client)
	sum := func(name string) (total float64) {
		for _, each := range families[name].GetMetric() {
			total += each.GetCounter().GetValue() + each.GetGauge().GetValue() + float64(each.GetHistogram().GetSampleCount())
		}
		return total
	}
	assert.InDelta(t, 10, sum("messaging_process_duration_seconds"), 0)
	assert.InDelta(t, 10, sum("messaging_client_sent_messages_total"), 0)
	assert.InDelta(t, 10, sum("messaging_client_operation_duration_seconds"), 0)
	assert.InDelta(t, 10, sum("messaging_client_consumed_messages_total"), 0)
	assert.InDelta(t, 1, sum("prosody_consumer_joined_ratio"), 0)
	assert.Positive(t, sum("db_client_operation_duration_seconds"))
	assert.Len(t, families["prosody_partition_in_flight"].GetMetric(), client.Partitions())
}

func TestTwoClientsAndATakenPort(t *testing.T) {
	first, second := open(t, map[string]string{"probe_port": "0"}), open(t, map[string]string{"probe_port": "0", "group_id": "other"})
	require.NoError(t, first.Subscribe(t.Context(), succeed))
	require.NoError(t, second.Subscribe(t.Context(), succeed))
	port := first.Facts().Port
	require.NotEqual(t, port, second.Facts().Port)
	for client, group := range map[*Client]string{first: "group", second: "other"} {
		for _, each := range scrape(t, client)["prosody_consumer_joined_ratio"].GetMetric() {
			labels := map[string]string{}
			for _, label := range each.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			assert.Equal(t, group, labels["messaging_consumer_group_name"])
		}
	}

	third := open(t, map[string]string{"probe_port": fmt.Sprint(port), "group_id": "third"})
	err := third.Subscribe(t.Context(), succeed)
	require.ErrorContains(t, err, fmt.Sprintf("probe_port %d", port))
	require.NoError(t, first.Unsubscribe(t.Context()))
	require.NoError(t, third.Subscribe(t.Context(), succeed), "the port is free again")
}

func TestTheServerOfMockModeServesThisMachineAlone(t *testing.T) {
	client := open(t, map[string]string{"probe_port": "0"})
	require.NoError(t, client.Subscribe(t.Context(), succeed))
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, each := range addresses {
		at, _, err := net.ParseCIDR(each.String())
		require.NoError(t, err)
		if at.IsLoopback() || at.To4() == nil {
			continue
		}
		_, err = net.DialTimeout("tcp", net.JoinHostPort(at.String(), fmt.Sprint(client.Facts().Port)), time.Second)
		require.Error(t, err, at)
	}
}

// A reader of OTLP that collects after a short program has closed its client gets all of it.
func TestMetricsOutliveTheClient(t *testing.T) {
	all := metric.New()
	reader := sdk.NewManualReader(sdk.WithProducer(all))
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	defer func() { require.NoError(t, provider.Shutdown(t.Context())) }()
	deps := Deps{Memory: registry, Log: slog.New(slog.DiscardHandler), Metrics: all}
	client, err := New(plan(t, nil), deps)
	require.NoError(t, err)
	require.NoError(t, client.Subscribe(t.Context(), succeed))
	send(t, client, "key", `{}`)
	require.Eventually(t, func() bool { return client.Facts().Pipeline.Successes == 1 }, 2*time.Minute, time.Millisecond)
	require.NoError(t, client.Shutdown(t.Context()))
	var made metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &made))
	require.Len(t, made.ScopeMetrics, 1)
	found := map[string]metricdata.Aggregation{}
	for _, each := range made.ScopeMetrics[0].Metrics {
		found[each.Name] = each.Data
	}
	handled, ok := found["messaging.process.duration"].(metricdata.Histogram[float64])
	require.True(t, ok, "%v", found)
	require.EqualValues(t, 1, handled.DataPoints[0].Count)
}
