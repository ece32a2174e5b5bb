package config

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// require reports what is missing and what does not go together.
func (r *resolver) require() {
	c := r.config
	r.need("bootstrap_servers", len(c.BootstrapServers) > 0, "value required", Create)
	r.need("source_system", c.SourceSystem != "" || c.GroupID != "", "value required where group_id is not set", Create)
	r.need("cassandra_nodes", c.Mock || len(c.CassandraNodes) > 0, "value required unless mock", Create)
	r.need("group_id", c.GroupID != "", "value required to consume", Consumer)
	r.need("subscribed_topics", len(c.SubscribedTopics) > 0, "value required to consume", Subscribe)
	r.need("failure_topic", c.FailureTopic != "" || c.Mode != ModeLowLatency, "value required in mode low-latency", Consumer)
	r.need("failure_topic", c.FailureTopic != "" || c.InvalidRecords != InvalidDeadLetter,
		"value required where invalid_records is dead-letter", Consumer)
	r.need("cassandra_user", c.CassandraUser != "" || c.CassandraPassword == "", "value required with cassandra_password", Create)

	r.tls("peer", c.PeerTLS, c.PeerTLSCA, c.PeerTLSCert, c.PeerTLSKey, Value)
	r.need("peer_tls_cert", c.PeerTLSCert != "" || !c.PeerTLS, "value required with peer_tls", Value)
	r.tls("cassandra", c.CassandraTLS, c.CassandraTLSCA, c.CassandraTLSCert, c.CassandraTLSKey, Create)

	if c.DeferMaxDelay < c.DeferBase {
		name := "defer_max_delay"
		if c.Origin(name) == Defaulted {
			name = "defer_base"
		}
		option := r.table[name]
		r.add(Fault{Option: name, Env: option.Env, Value: option.show(c), Stage: Consumer, Class: OutOfRange,
			FromEnv: c.Origin(name) == Environment, Rule: "defer_max_delay must not be less than defer_base"})
	}
}

// tls reports files of TLS that would not be used, and half a pair of them.
func (r *resolver) tls(area string, on bool, ca, cert, key string, stage Stage) {
	r.need(area+"_tls", on || ca == "" && cert == "" && key == "",
		fmt.Sprintf("must be true where files are given by %s_tls_ca, %s_tls_cert or %s_tls_key", area, area, area), stage)
	r.need(area+"_tls_cert", cert != "" || key == "", fmt.Sprintf("value required with %s_tls_key", area), stage)
	r.need(area+"_tls_key", key != "" || cert == "", fmt.Sprintf("value required with %s_tls_cert", area), stage)
}

// need reports a value as missing, unless a fault already says why it is not there.
func (r *resolver) need(name string, there bool, rule string, stage Stage) {
	if there || len(r.faults.Of(name)) > 0 {
		return
	}
	r.add(Fault{Option: name, Env: r.table[name].Env, Rule: rule, Stage: stage, Class: Missing})
}

// derive fills what follows from other options.
func (r *resolver) derive() {
	c := r.config
	if c.SourceSystem == "" {
		c.SourceSystem = c.GroupID
	}
	if c.Timeout == 0 {
		c.Timeout = c.StallThreshold / 5 * 4
	}
	if c.Origin("send_timeout") == Defaulted {
		c.SendTimeout = time.Second
		if c.Mode == ModePipeline {
			c.SendTimeout = 10 * time.Second
		}
	}
	if c.InvalidRecords == "" {
		c.InvalidRecords = InvalidSkip
		if c.FailureTopic != "" {
			c.InvalidRecords = InvalidDeadLetter
		}
	}
	if c.StateReadCacheSize == 0 {
		c.StateReadCacheSize = 1 << 20
		if c.Origin("state_owned_cache_size") != Defaulted {
			c.StateReadCacheSize = c.StateOwnedCacheSize
		}
	}
	if c.StateCacheDir == "" {
		c.StateCacheDir = filepath.Join(os.TempDir(), "prosody", "keyed-state")
	}
	c.Subsystem = strings.TrimSpace(c.Subsystem)
	if c.Mock { // no records of its own, and no socket that was not asked for
		c.TelemetryEnabled = false
		if c.Origin("probe_port") != Explicit {
			c.ProbePort = -1
		}
	}
	if c.Origin("status_page") == Defaulted {
		c.StatusPage = c.Mock
	}
}

// notice notes what looks like a mistake but is none for sure.
func (r *resolver) notice() {
	c := r.config
	if c.CassandraRack != "" && c.CassandraDatacenter == "" {
		c.Notes = append(c.Notes, "cassandra_rack has no effect without cassandra_datacenter")
	}
	if c.Timeout >= c.StallThreshold {
		c.Notes = append(c.Notes, "timeout is not below stall_threshold: slow handlers will count as stalled")
	}
	if r.env == nil {
		return
	}
	known := map[string]bool{}
	for _, option := range r.table {
		known[option.Env] = true
	}
	names := slices.Clone(r.env.Names())
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, kafkaEnv) || known[name] {
			continue
		}
		near, least := "", 3
		for _, option := range Options() {
			if far := distance(name, option.Env); option.Env != "" && far < least {
				near, least = option.Env, far
			}
		}
		if near != "" {
			c.Notes = append(c.Notes, fmt.Sprintf("environment variable '$%s' is not known; did you mean '$%s'?", name, near))
		}
	}
}

func nodes(value any) string {
	for _, node := range value.([]string) {
		host, port, err := net.SplitHostPort(node)
		if err != nil && strings.Count(node, ":") != 1 {
			host, port, err = strings.Trim(node, "[]"), "9042", nil
		}
		number, bad := strconv.ParseUint(port, 10, 16)
		if err != nil || bad != nil || number == 0 || host == "" || strings.ContainsAny(host, " /") {
			return "each node must be a host name or IP address, with or without a port: host:9042"
		}
	}
	return ""
}

func keyspace(value any) string {
	if !regexp.MustCompile(`^[A-Za-z0-9_]{1,48}$`).MatchString(value.(string)) {
		return "must have 1 to 48 letters, digits and underscores"
	}
	return ""
}

func cleanup(value any) string {
	for _, policy := range strings.Split(value.(string), ",") {
		if policy != "delete" && policy != "compact" {
			return "must be delete, compact or compact,delete"
		}
	}
	return ""
}

// Replication is the replication of a keyspace.
type Replication struct {
	Factor      int            // of SimpleStrategy; 0 for NetworkTopologyStrategy
	Datacenters map[string]int // of NetworkTopologyStrategy
}

// ParseReplication reads the text of cassandra_replication.
func ParseReplication(text string) (Replication, error) {
	broken := fmt.Errorf("must be like SimpleStrategy:3 or NetworkTopologyStrategy:east=3,west=2")
	strategy, rest, _ := strings.Cut(text, ":")
	switch strategy {
	case "SimpleStrategy":
		factor, ok := replicas(rest)
		if !ok {
			return Replication{}, broken
		}
		return Replication{Factor: factor}, nil
	case "NetworkTopologyStrategy":
		result := Replication{Datacenters: map[string]int{}}
		for _, part := range split(rest) {
			name, count, _ := strings.Cut(part, "=")
			factor, ok := replicas(count)
			if !ok || !regexp.MustCompile(`^[A-Za-z0-9._-]+$`).MatchString(name) || result.Datacenters[name] != 0 {
				return Replication{}, broken
			}
			result.Datacenters[name] = factor
		}
		if len(result.Datacenters) > 0 {
			return result, nil
		}
	}
	return Replication{}, broken
}

func replicas(text string) (int, bool) {
	factor, err := strconv.ParseUint(text, 10, 8)
	return int(factor), err == nil && factor > 0
}

func replication(value any) string {
	if _, err := ParseReplication(value.(string)); err != nil {
		return err.Error()
	}
	return ""
}
