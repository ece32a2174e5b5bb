package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// enough is what every kind of client needs.
func enough() *Source {
	s := &Source{}
	for name, value := range map[string]string{"bootstrap_servers": "localhost:1", "group_id": "group",
		"subscribed_topics": "topic", "cassandra_nodes": "localhost"} {
		_ = s.Set(name, value)
	}
	return s
}

// other returns a text for the option that is not its default.
func other(o Option) string {
	switch o.Name {
	case "cassandra_replication":
		return "NetworkTopologyStrategy:east=3,west=2"
	case "topic_cleanup_policy":
		return "compact"
	case "defer_base":
		return "3s"
	case "invalid_records":
		return InvalidDeadLetter
	}
	switch o.Type {
	case Bool:
		if o.Default == "true" {
			return "false"
		}
		return "true"
	case Enum:
		return o.Values[1-indexOf(o.Values, o.Default)%2]
	case Int, Port:
		return "7"
	case Float:
		return "0.125"
	case Duration, ReadCache:
		return "77s"
	case Size:
		return "3 MiB"
	case Address:
		return "127.0.0.1:1234"
	case List:
		return "x:1,y:2"
	default:
		return "something"
	}
}

func indexOf(list []string, item string) int {
	for i, each := range list {
		if each == item {
			return i
		}
	}
	return 1
}

func TestEveryOptionIsWellFormed(t *testing.T) {
	names, envs, fields := map[string]bool{}, map[string]bool{}, map[uintptr]string{}
	var c Config
	start, end := reflect.ValueOf(&c).Pointer(), reflect.ValueOf(&c).Pointer()+reflect.TypeFor[Config]().Size()
	for _, o := range Options() {
		require.NotEmpty(t, o.Help, o.Name)
		require.NotEmpty(t, o.Area, o.Name)
		require.False(t, names[o.Name], o.Name)
		names[o.Name] = true
		if o.Type != Definitions {
			require.False(t, envs[o.Env], o.Env)
			envs[o.Env] = true
			require.True(t, strings.HasPrefix(o.Env, "PROSODY_"), o.Env)
		}
		pointer := reflect.ValueOf(o.field(&c)).Pointer()
		require.True(t, pointer >= start && pointer < end, o.Name)
		require.Empty(t, fields[pointer], "%s has the field of another option", o.Name)
		fields[pointer] = o.Name
		for _, text := range []string{o.Default, o.Min, o.Max} {
			if text == "" || (o.Type == String || o.Type == List) && text != o.Default {
				continue
			}
			value, rule := o.parse(text)
			require.Empty(t, rule, "%s: %s", o.Name, text)
			require.Empty(t, o.limit(value), "%s: %s", o.Name, text)
		}
		require.Equal(t, o.Type == Enum, len(o.Values) > 0, o.Name)
	}
	// and every field of Config has an option
	value := reflect.ValueOf(&c).Elem()
	for i := range value.NumField() {
		switch name := value.Type().Field(i).Name; name {
		case "Kafka", "Notes", "given":
		default:
			assert.NotEmpty(t, fields[value.Field(i).Addr().Pointer()], "Config.%s is filled by no option", name)
		}
	}
}

func TestEveryOptionHasItsEffect(t *testing.T) {
	base, _ := Resolve(enough(), nil)
	for _, o := range Options() {
		if o.Type == Definitions {
			continue
		}
		t.Run(o.Name, func(t *testing.T) {
			text := other(o)
			value, rule := o.parse(text)
			require.Empty(t, rule)
			usual := reflect.ValueOf(o.field(base)).Elem().Interface()
			require.NotEqual(t, usual, value, "the test's value is the default")

			c, faults := Resolve(enough(), Map{o.Env: text})
			if _, set := enough().get(o.Name); set {
				assert.Equal(t, usual, reflect.ValueOf(o.field(c)).Elem().Interface(), "explicit wins")
			} else {
				assert.Empty(t, faults.Of(o.Name).filter(func(f Fault) bool { return f.Class != Missing }))
				assert.Equal(t, value, reflect.ValueOf(o.field(c)).Elem().Interface())
				assert.Equal(t, Environment, c.Origin(o.Name))
				assert.Contains(t, c.String(), o.Name+"=")
			}

			source := enough()
			err := source.Set(o.Name, text)
			c, faults = Resolve(source, Map{o.Env: "\xff garbage"})
			if o.EnvOnly {
				require.Error(t, err)
				require.NotEmpty(t, faults.Of(o.Name))
				return
			}
			require.NoError(t, err)
			assert.Empty(t, faults.Of(o.Name).filter(func(f Fault) bool { return f.Class != Missing }), "the environment is not looked at")
			assert.Equal(t, value, reflect.ValueOf(o.field(c)).Elem().Interface())
			assert.Equal(t, Explicit, c.Origin(o.Name))
		})
	}
}

func TestDefaults(t *testing.T) {
	c, faults := Resolve(enough(), nil)
	require.Empty(t, faults)
	assert.Equal(t, "group", c.SourceSystem)
	assert.Equal(t, ModePipeline, c.Mode)
	assert.Equal(t, 32, c.MaxConcurrency)
	assert.Equal(t, 64, c.MaxUncommitted)
	assert.Equal(t, 4*time.Minute, c.Timeout)
	assert.Equal(t, 10*time.Second, c.SendTimeout)
	assert.Equal(t, 8000, c.ProbePort)
	assert.Equal(t, 5*time.Second, c.StateReadCache)
	assert.Equal(t, int64(1<<20), c.StateReadCacheSize)
	assert.Equal(t, InvalidSkip, c.InvalidRecords)
	assert.Equal(t, 365*24*time.Hour, c.CassandraRetention)
	assert.True(t, c.TelemetryEnabled)
	assert.Nil(t, c.AllowedEvents)
	assert.Equal(t, Defaulted, c.Origin("mode"))
}

func TestDerivedValues(t *testing.T) {
	cases := []struct {
		set  map[string]string
		want func(c *Config) (any, any)
	}{
		{map[string]string{"mode": "best-effort"}, func(c *Config) (any, any) { return time.Second, c.SendTimeout }},
		{map[string]string{"send_timeout": "none"}, func(c *Config) (any, any) { return time.Duration(0), c.SendTimeout }},
		{map[string]string{"timeout": "none", "stall_threshold": "10s"}, func(c *Config) (any, any) { return 8 * time.Second, c.Timeout }},
		{map[string]string{"probe_port": "NONE"}, func(c *Config) (any, any) { return -1, c.ProbePort }},
		{map[string]string{"probe_port": "0"}, func(c *Config) (any, any) { return 0, c.ProbePort }},
		{map[string]string{"mock": "true"}, func(c *Config) (any, any) { return -1, c.ProbePort }},
		{map[string]string{"mock": "true", "probe_port": "8000"}, func(c *Config) (any, any) { return 8000, c.ProbePort }},
		{map[string]string{"mock": "true"}, func(c *Config) (any, any) { return true, c.StatusPage }},
		{map[string]string{"mock": "true", "status_page": "false"}, func(c *Config) (any, any) { return false, c.StatusPage }},
		{map[string]string{}, func(c *Config) (any, any) { return false, c.StatusPage }},
		{map[string]string{"mock": "true", "telemetry_enabled": "true"}, func(c *Config) (any, any) { return false, c.TelemetryEnabled }},
		{map[string]string{"failure_topic": "f"}, func(c *Config) (any, any) { return InvalidDeadLetter, c.InvalidRecords }},
		{map[string]string{"failure_topic": "f", "invalid_records": "skip"}, func(c *Config) (any, any) { return InvalidSkip, c.InvalidRecords }},
		{map[string]string{"state_owned_cache_size": "2 MiB"}, func(c *Config) (any, any) { return int64(2 << 20), c.StateReadCacheSize }},
		{map[string]string{"state_read_cache": "false"}, func(c *Config) (any, any) { return time.Duration(0), c.StateReadCache }},
		{map[string]string{"subsystem": " billing "}, func(c *Config) (any, any) { return "billing", c.Subsystem }},
		{map[string]string{"source_system": "own"}, func(c *Config) (any, any) { return "own", c.SourceSystem }},
		{map[string]string{"bootstrap_servers": "a:1, b:2,"}, func(c *Config) (any, any) { return []string{"a:1", "b:2"}, c.BootstrapServers }},
	}
	for _, each := range cases {
		source := enough()
		for name, text := range each.set {
			require.NoError(t, source.Set(name, text))
		}
		c, faults := Resolve(source, nil)
		require.Empty(t, faults, each.set)
		want, got := each.want(c)
		assert.Equal(t, want, got, each.set)
	}
}

func TestDescribeNamesEveryOption(t *testing.T) {
	var rows []map[string]any
	require.NoError(t, json.Unmarshal(Describe(), &rows))
	require.Len(t, rows, len(Options()))
	assert.Equal(t, "bootstrap_servers", rows[0]["name"])
	assert.Equal(t, "PROSODY_BOOTSTRAP_SERVERS", rows[0]["environment"])
	assert.Equal(t, "list", rows[0]["type"])
	for _, row := range rows {
		assert.NotEqual(t, "unknown", row["type"])
		assert.NotEqual(t, "unknown", row["stage"])
	}
}
