package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSecretsNeverShow(t *testing.T) {
	source := enough()
	for name, value := range map[string]string{"cassandra_password": "S3CRET", "cassandra_user": "u", "kafka.sasl.password": "S3CRET",
		"kafka.ssl.key.pem": "S3CRET", "kafka.sasl.oauthbearer.config": "S3CRET", "kafka.ssl.keystore.password": "S3CRET",
		"kafka.sasl.jaas.config": "S3CRET", "kafka.sasl.mechanism": "PLAIN", "peer_tls_cert": "-----BEGIN PRIVATE KEY----- S3CRET"} {
		require.NoError(t, source.Set(name, value))
	}
	_ = source.Set("cassandra_pasword", "S3CRET")
	_ = source.Set("kafka.group.id", "S3CRET")
	c, faults := Resolve(source, Map{"PROSODY_KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET": "S3CRET", "PROSODY_PEER_TLS_KEY": "S3CRET\x00"})
	require.NotEmpty(t, faults)
	require.Equal(t, "S3CRET", c.CassandraPassword)
	require.Equal(t, "S3CRET", c.Kafka["sasl.password"])
	require.Equal(t, "S3CRET", c.Kafka["sasl.oauthbearer.client.secret"])

	object, err := json.Marshal(c)
	require.NoError(t, err)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("configured", "config", c)
	for _, text := range []string{c.String(), fmt.Sprintf("%v %+v %#v %s", c, c, c, c), fmt.Sprintf("%v %+v %#v", *c, *c, *c), string(object), log.String(),
		faults.Error(), string(Check(source, Map{"PROSODY_PEER_TLS_KEY": "S3CRET\x00"})), fmt.Sprintf("%v %+v %#v %+v", source, source, source, *source)} {
		assert.NotContains(t, text, "S3CRET")
	}
	assert.Contains(t, c.String(), `kafka.sasl.mechanism="PLAIN"`)
	assert.Contains(t, c.String(), `cassandra_password="[redacted]"`)
	assert.Contains(t, log.String(), `config.group_id=group`)
}

func TestLongValuesAreCut(t *testing.T) {
	text := redact(strings.Repeat("ä", 500), false)
	assert.Less(t, len(text), 210)
	assert.True(t, strings.HasSuffix(text, "ä…"))
}

func TestKafkaProperties(t *testing.T) {
	source := enough()
	require.NoError(t, source.Set("kafka.sasl.mechanism", "PLAIN"))
	require.NoError(t, source.Set("kafka.client.id", "mine"))
	require.NoError(t, source.Set("kafka.partitioner", "murmur2_random"))
	c, faults := Resolve(source, Map{"PROSODY_KAFKA_SASL_MECHANISM": "GSSAPI", "PROSODY_KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "PROSODY_KAFKA_DEBUG": ""})
	require.Empty(t, faults)
	assert.Equal(t, map[string]string{"sasl.mechanism": "PLAIN", "client.id": "mine", "partitioner": "murmur2_random", "security.protocol": "SASL_SSL"}, c.Kafka)
}

func TestKafkaPropertiesThatProsodyOwns(t *testing.T) {
	for name, use := range map[string]string{"bootstrap.servers": "bootstrap_servers", "group.id": "group_id", "auto.commit.interval.ms": "commit_interval",
		"enable.auto.commit": "commit_interval", "enable.auto.offset.store": "commit_interval", "partition.assignment.strategy": "group_id",
		"enable.idempotence": "send_timeout", "message.timeout.ms": "send_timeout", "go.events.channel.enable": "no option",
		"auto.offset.reset": "earliest", "rebalance_cb": "no option", "Bad Name": "not a librdkafka property", "": "not a librdkafka property"} {
		source := enough()
		err := source.Set("kafka."+name, "x")
		require.Error(t, err, name)
		assert.ErrorContains(t, err, use)
		c, faults := Resolve(source, nil)
		require.Len(t, faults, 1)
		assert.Equal(t, Value, faults[0].Stage)
		assert.Empty(t, c.Kafka)
	}
	_, faults := Resolve(enough(), Map{"PROSODY_KAFKA_GROUP_ID": "x"})
	require.Len(t, faults, 1)
	assert.Equal(t, Create, faults[0].Stage)
	assert.Contains(t, faults[0].Error(), "PROSODY_KAFKA_GROUP_ID")
	assert.Contains(t, faults[0].Error(), "use the option group_id")
}
