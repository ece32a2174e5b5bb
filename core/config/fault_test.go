package config

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestValuesThatAreRefused(t *testing.T) {
	cases := []struct {
		option, value string
		stage         Stage
		class         Class
		rule          string
	}{
		{"max_concurrency", "0", Subscribe, OutOfRange, "between 1 and"},
		{"max_concurrency", "-1", Subscribe, OutOfRange, "between 1 and"},
		{"max_concurrency", "many", Value, Malformed, "whole number"},
		{"max_uncommitted", "0", Subscribe, OutOfRange, "between 1 and"},
		{"max_uncommitted", "1.5", Value, Malformed, "whole number"},
		{"timeout", "0", Subscribe, OutOfRange, "between 1ms"},
		{"timeout", "5", Value, Malformed, "unit needed"},
		{"poll_interval", "0", Subscribe, OutOfRange, "between 1ms"},
		{"commit_interval", "0", Subscribe, OutOfRange, "between 1ms"},
		{"shutdown_timeout", "-1s", Value, Malformed, "numbers with units"},
		{"stall_threshold", "0", Subscribe, OutOfRange, "between"},
		{"statistics_interval", "25h", Subscribe, OutOfRange, "between"},
		{"slab_size", "0", Subscribe, OutOfRange, "between 1m"},
		{"slab_size", "59s", Subscribe, OutOfRange, "between 1m"},
		{"slab_size", "90.5s", Subscribe, OutOfRange, "whole number of seconds"},
		{"slab_size", "366d", Subscribe, OutOfRange, "between 1m"},
		{"probe_port", "65536", Subscribe, OutOfRange, "between 0 and 65535"},
		{"idempotence_ttl", "59s", Subscribe, OutOfRange, "between 60s"},
		{"idempotence_cache_size", "0", Value, OutOfRange, "between 1"},
		{"retry_base", "999us", Subscribe, OutOfRange, "between 1ms"},
		{"max_retry_delay", "0", Subscribe, OutOfRange, "between 1ms"},
		{"scheduler_failure_weight", "1.5", Subscribe, OutOfRange, "between 0 and 1"},
		{"scheduler_failure_weight", "NaN", Value, Malformed, "decimal number"},
		{"scheduler_wait_weight", "-0.5", Subscribe, OutOfRange, "at least 0"},
		{"monopolization_threshold", "-0.1", Subscribe, OutOfRange, "between 0 and 1"},
		{"monopolization_cache_size", "0", Subscribe, OutOfRange, "between 1"},
		{"defer_base", "999ms", Consumer, OutOfRange, "between 1s"},
		{"defer_failure_threshold", "1.1", Consumer, OutOfRange, "between 0 and 1"},
		{"defer_store_cache_size", "0", Consumer, OutOfRange, "between 1"},
		{"loader_cache_size", "0", Value, OutOfRange, "between 1"},
		{"loader_discard_threshold", "-1", Value, OutOfRange, "between 0"},
		{"loader_seek_timeout", "0", Value, OutOfRange, "between 1ms"},
		{"mode", "low_latency", Value, Malformed, "pipeline, low-latency or best-effort"},
		{"mode", "PIPELINE", Value, Malformed, "pipeline"},
		{"mock", "yes", Value, Malformed, "true or false"},
		{"message_spans", "sibling", Value, Malformed, "child or follows_from"},
		{"timer_spans", "Child", Value, Malformed, "child or follows_from"},
		{"subsystem", " ", Value, OutOfRange, "not be empty"},
		{"subsystem", "", Value, OutOfRange, "not be empty"},
		{"peer_bind_address", "localhost:9099", Value, Malformed, "IP address"},
		{"peer_advertised_connect", "", Value, OutOfRange, "not be empty"},
		{"peer_registration_ttl", "4s", Value, OutOfRange, "between 5s"},
		{"peer_cache_capacity", "0", Value, OutOfRange, "between 1"},
		{"telemetry_topic", "", Value, OutOfRange, "not be empty"},
		{"state_owned_cache_size", "abc", Value, Malformed, "invalid byte size"},
		{"state_owned_cache_size", "0", Value, OutOfRange, "at least 1"},
		{"state_read_cache", "0", Value, OutOfRange, "between 1ms"},
		{"state_read_cache", "true", Value, Malformed, "ambiguous"},
		{"state_recovery_delay", "1.5s", Value, OutOfRange, "whole number of seconds"},
		{"state_recovery_delay", "0", Value, OutOfRange, "between 1s"},
		{"group_id", "", Consumer, OutOfRange, "not be empty"},
		{"group_id", "a\x00b", Value, Malformed, "NUL"},
		{"failure_topic", "", Consumer, OutOfRange, "not be empty"},
		{"source_system", "", Create, OutOfRange, "not be empty"},
		{"bootstrap_servers", ",", Create, OutOfRange, "at least one item"},
		{"allowed_events", "", Subscribe, OutOfRange, "at least one item"},
		{"subscribed_topics", " , ", Subscribe, OutOfRange, "at least one item"},
		{"cassandra_nodes", "host:port", Create, OutOfRange, "host:9042"},
		{"cassandra_nodes", "host:0", Create, OutOfRange, "host:9042"},
		{"cassandra_keyspace", "a-b", Create, OutOfRange, "letters"},
		{"cassandra_retention", "21y", Create, OutOfRange, "between"},
		{"cassandra_replication", "SimpleStrategy", Create, OutOfRange, "SimpleStrategy:3"},
		{"cassandra_replication", "NetworkTopologyStrategy:", Create, OutOfRange, "SimpleStrategy:3"},
		{"cassandra_replication", "NetworkTopologyStrategy:a=1,a=2", Create, OutOfRange, "SimpleStrategy:3"},
		{"cassandra_schema", "drop", Value, Malformed, "create or verify"},
		{"invalid_records", "fail", Value, Malformed, "skip or dead-letter"},
	}
	for _, c := range cases {
		source := enough()
		require.NoError(t, source.Set(c.option, c.value))
		_, faults := Resolve(source, nil)
		found := faults.Of(c.option)
		if !assert.Len(t, found, 1, "%s=%q", c.option, c.value) {
			continue
		}
		assert.Equal(t, c.stage, found[0].Stage, "%s=%q", c.option, c.value)
		assert.Equal(t, c.class, found[0].Class, "%s=%q", c.option, c.value)
		assert.Contains(t, found[0].Rule, c.rule, "%s=%q", c.option, c.value)
		assert.Contains(t, found[0].Error(), c.option)
	}
}

func TestCombinationsThatAreRefused(t *testing.T) {
	cases := []struct {
		name  string
		set   map[string]string
		fault string
		stage Stage
		class Class
	}{
		{"low latency without failure topic", map[string]string{"mode": "low-latency"}, "failure_topic", Consumer, Missing},
		{"dead letters without failure topic", map[string]string{"invalid_records": "dead-letter"}, "failure_topic", Consumer, Missing},
		{"delay below base", map[string]string{"defer_base": "10s", "defer_max_delay": "5s"}, "defer_max_delay", Consumer, OutOfRange},
		{"base above default delay", map[string]string{"defer_base": "48h"}, "defer_base", Consumer, OutOfRange},
		{"peer TLS without files", map[string]string{"peer_tls": "true"}, "peer_tls_cert", Value, Missing},
		{"peer files without TLS", map[string]string{"peer_tls_ca": "ca.pem"}, "peer_tls", Value, Missing},
		{"Cassandra files without TLS", map[string]string{"cassandra_tls_ca": "ca.pem"}, "cassandra_tls", Create, Missing},
		{"half a pair", map[string]string{"cassandra_tls": "true", "cassandra_tls_cert": "c.pem"}, "cassandra_tls_key", Create, Missing},
		{"other half", map[string]string{"cassandra_tls": "true", "cassandra_tls_key": "k.pem"}, "cassandra_tls_cert", Create, Missing},
		{"password without user", map[string]string{"cassandra_password": "p"}, "cassandra_user", Create, Missing},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			source := enough()
			for name, value := range c.set {
				require.NoError(t, source.Set(name, value))
			}
			_, faults := Resolve(source, nil)
			require.Len(t, faults, 1, faults.Error())
			assert.Equal(t, c.fault, faults[0].Option)
			assert.Equal(t, c.stage, faults[0].Stage)
			assert.Equal(t, c.class, faults[0].Class)
		})
	}
}

func TestNothingSet(t *testing.T) {
	_, faults := Resolve(nil, nil)
	assert.ErrorContains(t, faults.Err(Create), "bootstrap_servers")
	assert.ErrorContains(t, faults.Err(Create), "source_system")
	assert.ErrorContains(t, faults.Err(Create), "$PROSODY_SOURCE_SYSTEM")
	assert.ErrorContains(t, faults.Err(Consumer), "consumer configuration failed: group_id")
	assert.ErrorContains(t, faults.Err(Consumer), "$PROSODY_GROUP_ID")
	assert.ErrorContains(t, faults.Err(Subscribe), "failed to initialize consumer: subscribed_topics")
	assert.NoError(t, faults.Err(Value))
	var inner Faults
	require.ErrorAs(t, faults.Err(Consumer), &inner)
	assert.Equal(t, Missing, inner[0].Class)
}

func TestPureProducer(t *testing.T) {
	source := &Source{}
	require.NoError(t, source.Set("bootstrap_servers", "x"))
	require.NoError(t, source.Set("source_system", "x"))
	_, faults := Resolve(source, Map{})
	assert.ErrorContains(t, faults.Err(Create), "$PROSODY_CASSANDRA_NODES")
	require.NoError(t, source.Set("cassandra_nodes", "x"))
	c, faults := Resolve(source, Map{"PROSODY_MAX_CONCURRENCY": "many"})
	assert.NoError(t, faults.Err(Value))
	assert.NoError(t, faults.Err(Create))
	assert.ErrorContains(t, faults.Err(Consumer), "$PROSODY_MAX_CONCURRENCY")
	assert.Equal(t, 32, c.MaxConcurrency, "an option with a fault holds its default")
}

func TestEnvironment(t *testing.T) {
	cases := []struct {
		env, value string
		stage      Stage
	}{
		{"PROSODY_SHUTDOWN_TIMEOUT", "5", Consumer},
		{"PROSODY_MAX_CONCURRENCY", "many", Consumer},
		{"PROSODY_MAX_CONCURRENCY", "0", Subscribe},
		{"PROSODY_DEFER_BASE", "x", Consumer},
		{"PROSODY_PEER_REGISTRATION_TTL", "long", Value},
		{"PROSODY_STATE_READ_CACHE_TTL", "true", Value},
		{"PROSODY_SEND_TIMEOUT", "x", Create},
		{"PROSODY_RETRY_MAX_DELAY", "x", Consumer},
		{"PROSODY_ALLOWED_EVENTS", ",", Subscribe},
		{"PROSODY_TOPIC_PARTITIONS", "0", Admin},
	}
	for _, c := range cases {
		_, faults := Resolve(enough(), Map{c.env: c.value})
		require.Len(t, faults, 1, c.env)
		assert.Equal(t, c.stage, faults[0].Stage, c.env)
		assert.True(t, faults[0].FromEnv)
		assert.Contains(t, faults[0].Error(), "'$"+c.env+"'")
		assert.Contains(t, faults[0].Error(), c.value)
	}
	c, faults := Resolve(enough(), Map{"PROSODY_MAX_CONCURRENCY": "", "PROSODY_MODE": "best-effort", "PROSODY_GROUP_ID": "other"})
	require.Empty(t, faults)
	assert.Equal(t, 32, c.MaxConcurrency)
	assert.Equal(t, "best-effort", c.Mode)
	assert.Equal(t, "group", c.GroupID)
}

func TestNotesOnMisspelledVariables(t *testing.T) {
	c, faults := Resolve(enough(), Map{"PROSODY_MAX_CONCURENCY": "3", "PROSODY_SOMETHING_ELSE": "4", "OTHER": "5"})
	require.Empty(t, faults)
	require.Len(t, c.Notes, 1)
	assert.Contains(t, c.Notes[0], "did you mean '$PROSODY_MAX_CONCURRENCY'?")
}

func TestUnknownNames(t *testing.T) {
	for name, want := range map[string]string{"max_concurency": "max_concurrency", "group-id": "group_id", "PROSODY_MODE": "mode",
		"bootstrap_server": "bootstrap_servers", "Timeout": "timeout", "zzzzzzzzzzzzzzzzzzzzzzzz": "", "topic_name": ""} {
		source := enough()
		err := source.Set(name, "secret value")
		require.Error(t, err, name)
		if want != "" {
			assert.ErrorContains(t, err, "did you mean "+want+"?")
		}
		_, faults := Resolve(source, nil)
		require.Len(t, faults, 1)
		assert.Equal(t, err, faults[0])
		assert.NotContains(t, faults.Error(), "secret value")
	}
}

func TestWrongKindOfValue(t *testing.T) {
	source := enough()
	require.NoError(t, source.SetList("timeout", []string{"1s"}))
	require.NoError(t, source.SetNone("max_concurrency"))
	require.NoError(t, source.SetNone("probe_port"))
	require.NoError(t, source.SetNone("send_timeout"))
	c, faults := Resolve(source, nil)
	require.Len(t, faults, 2)
	for _, fault := range faults {
		assert.Equal(t, WrongType, fault.Class)
		assert.Equal(t, Value, fault.Stage)
	}
	assert.Equal(t, -1, c.ProbePort)
	assert.Zero(t, c.SendTimeout)
}

func TestExplicitLists(t *testing.T) {
	source := enough()
	list := []string{"p,q", "^r", " "}
	require.NoError(t, source.SetList("subscribed_topics", list))
	require.NoError(t, source.SetList("bootstrap_servers", []string{"a:1,b:2"}))
	require.NoError(t, source.SetList("allowed_events", []string{}))
	list[0] = "changed"
	c, faults := Resolve(source, Map{"PROSODY_ALLOWED_EVENTS": "x"})
	assert.Equal(t, []string{"p,q", "^r"}, c.SubscribedTopics)
	assert.Equal(t, []string{"a:1", "b:2"}, c.BootstrapServers)
	require.Len(t, faults, 1)
	assert.Equal(t, Subscribe, faults[0].Stage)
	assert.Contains(t, faults[0].Error(), "allowed_events")
}

func TestCheckReportsEveryFault(t *testing.T) {
	source := &Source{}
	_ = source.Set("nonsense", "1")
	_ = source.Set("max_concurrency", "0")
	_ = source.Set("mode", "fast")
	var rows []struct{ Option, Environment, Value, Rule, Stage, Class, Message string }
	require.NoError(t, json.Unmarshal(Check(source, Map{"PROSODY_POLL_INTERVAL": "x"}), &rows))
	var names []string
	for _, row := range rows {
		names = append(names, row.Option+"/"+row.Stage+"/"+row.Class)
		assert.NotEmpty(t, row.Message)
	}
	assert.Equal(t, []string{"nonsense/value/unknown", "mode/value/value", "max_concurrency/subscribe/range", "poll_interval/consumer/value",
		"bootstrap_servers/create/missing", "source_system/create/missing", "cassandra_nodes/create/missing", "group_id/consumer/missing",
		"subscribed_topics/subscribe/missing"}, names)
	assert.JSONEq(t, "[]", string(Check(enough(), nil)))
}

func TestFaultsAreErrors(t *testing.T) {
	err := error(Faults{{Option: "a", Rule: "b"}, {Option: "c", Rule: "d", Class: Missing}})
	assert.EqualError(t, err, `a is "": b; c: d`)
	var faults Faults
	assert.ErrorAs(t, err, &faults)
}
