// Package confluent is the adapter of the port core/kafka to a real cluster.
//
// It owns the bond to librdkafka: its settings, its threads and the translation of
// its errors. Producer and admin client stand on confluent-kafka-go. The consumer
// drives the same librdkafka through C of its own (native.h), which hands over a
// batch in one call; confluent-kafka-go needs several calls for each record.
//
// It upholds the port's part of I3 and I6: a revoked partition stays with the group
// member until Release, and a log that starts again is a new assignment.
package confluent

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"prosody/core/kafka"
)

// Cluster makes clients of real clusters.
type Cluster struct{}

var _ kafka.Cluster = Cluster{}

// Properties that the adapter sets itself; a caller's value is refused.
var (
	ownedAlways   = []string{"bootstrap.servers", "metadata.broker.list", "log.queue", "enabled_events"}
	ownedConsumer = []string{
		"group.id", "group.protocol", "partition.assignment.strategy", "auto.offset.reset",
		"enable.auto.commit", "auto.commit.enable", "auto.commit.interval.ms", "enable.auto.offset.store", "enable.partition.eof",
	}
	ownedProducer = []string{
		"enable.idempotence", "acks", "request.required.acks", "message.timeout.ms", "delivery.timeout.ms",
		"transactional.id", "produce.offset.report", "delivery.report.only.error",
	}
)

// settings puts the properties of a client together: defaults, then the caller's,
// and refuses what a caller must not set.
func settings(servers []string, defaults, wanted map[string]string, owned []string) (map[string]string, error) {
	var names []string
	for _, entry := range servers {
		for name := range strings.SplitSeq(entry, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil, fail(kafka.BadConfig, "bootstrap.servers: no server is named")
	}
	all := map[string]string{
		"bootstrap.servers":        strings.Join(names, ","),
		"reconnect.backoff.max.ms": "2000",
		// Brokers that stood still may say at first that the cluster has none. The client
		// then forgets all, and would ask the servers above again after 5 minutes only.
		"metadata.recovery.rebootstrap.trigger.ms": "10000",
	}
	if host, err := os.Hostname(); err == nil {
		all["client.id"] = host
	}
	maps.Copy(all, defaults)
	for name, value := range wanted {
		if slices.Contains(ownedAlways, name) || slices.Contains(owned, name) || strings.HasPrefix(name, "go.") {
			return nil, fail(kafka.BadConfig, fmt.Sprintf("kafka.%s is set by Prosody itself and cannot be given", name))
		}
		if strings.ContainsRune(name, 0) || strings.ContainsRune(value, 0) {
			return nil, fail(kafka.BadConfig, fmt.Sprintf("kafka.%q contains a NUL character", name))
		}
		all[name] = value
	}
	return all, nil
}

// redact keeps a secret value out of a text about it.
func redact(name, value, text string) string {
	for _, word := range []string{"password", "secret", "key", "jaas", "token", "credential", "oauth"} {
		if value != "" && strings.Contains(name, word) {
			return strings.ReplaceAll(text, value, "(hidden)")
		}
	}
	return text
}

// heard is a log without what librdkafka says of properties for another kind of client:
// all kinds are given the same.
func heard(log func(level int, text string)) func(level int, text string) {
	if log == nil {
		return nil
	}
	return func(level int, text string) {
		if !strings.Contains(text, " property and will be ignored by this ") {
			log(level, text)
		}
	}
}

// Names of topics: what brokers allow.
const longest = 249

// checkTopic refuses names that no broker accepts.
func checkTopic(name string) error {
	var rule string
	switch {
	case name == "":
		rule = "it is empty"
	case name == "." || name == "..":
		rule = "it must not be . or .."
	case len(name) > longest:
		rule = fmt.Sprintf("it has %d characters, %d are allowed", len(name), longest)
		name = name[:32] + "…"
	case strings.ContainsFunc(name, foreign):
		rule = "only a-z, A-Z, 0-9, '.', '_' and '-' are allowed"
	default:
		return nil
	}
	return fail(kafka.BadTopic, fmt.Sprintf("topic name %q: %s", name, rule))
}

func foreign(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
		return false
	}
	return true
}
