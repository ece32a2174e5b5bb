package config

import "strings"

// century is the longest time to live that Cassandra accepts: 20 years of 365 days.
const century = "630720000s"

func core() []Option {
	return []Option{
		{Name: "bootstrap_servers", Area: AreaCore, Type: List, Min: "1", Stage: Create, Derived: "required",
			Help:  "Kafka brokers to start from, as `host:port`. In mock mode the name of the in-memory broker, which all clients of the process that use the same name share.",
			field: func(c *Config) any { return &c.BootstrapServers }},
		{Name: "group_id", Area: AreaCore, Type: String, Min: "1", Stage: Consumer, Derived: "required to consume",
			Help:  "Consumer group. Also the default of `source_system`.",
			field: func(c *Config) any { return &c.GroupID }},
		{Name: "source_system", Area: AreaCore, Type: String, Min: "1", Stage: Create, Derived: "`group_id`",
			Help:  "Name under which this client sends. A consumer skips records whose source system is its own group.",
			field: func(c *Config) any { return &c.SourceSystem }},
		{Name: "mode", Area: AreaCore, Type: Enum, Default: ModePipeline, Values: []string{ModePipeline, ModeLowLatency, ModeBestEffort}, Stage: Value,
			Help:  "What happens to an event whose handler fails: retried and deferred until it succeeds (pipeline), retried a few times and sent to `failure_topic` (low-latency), or logged (best-effort).",
			field: func(c *Config) any { return &c.Mode }},
		{Name: "mock", Area: AreaCore, Type: Bool, Default: "false", Stage: Create,
			Help:  "Kafka and stores in memory; no socket is opened. Telemetry records are off, and the probe server unless `probe_port` is set.",
			field: func(c *Config) any { return &c.Mock }},

		{Name: "subsystem", Area: AreaRequests, Type: String, Min: "1", Stage: Value, check: blank,
			Help:  "Name under which this client answers requests and publishes state.",
			field: func(c *Config) any { return &c.Subsystem }},
		{Name: "peer_bind_address", Area: AreaRequests, Type: Address, Derived: "all interfaces, port 9099", Stage: Value,
			Help:  "IP address and port on which answers to requests arrive; a host name is refused.",
			field: func(c *Config) any { return &c.PeerBindAddress }},
		{Name: "peer_advertised_connect", Area: AreaRequests, Type: String, Min: "1", Stage: Value, check: blank,
			Help:  "Address that peers of another network use to reach this client.",
			field: func(c *Config) any { return &c.PeerAdvertisedConnect }},
		{Name: "peer_network_name", Area: AreaRequests, Type: String, Min: "1", Stage: Value, check: blank,
			Help:  "Network of this client. Peers with the same name, or without one, connect directly.",
			field: func(c *Config) any { return &c.PeerNetworkName }},
		{Name: "peer_cache_capacity", Area: AreaRequests, Type: Int, Default: "256", Min: "1", Max: "1000000", Stage: Value,
			Help:  "Connections to peers that are kept open.",
			field: func(c *Config) any { return &c.PeerCacheCapacity }},
		{Name: "peer_registration_ttl", Area: AreaRequests, Type: Duration, Default: "30s", Min: "5s", Max: century, Stage: Value,
			Help:  "How long the registration of this client lives without a renewal.",
			field: func(c *Config) any { return &c.PeerRegistrationTTL }},
		{Name: "peer_tls", Area: AreaRequests, Type: Bool, Default: "false", Stage: Value,
			Help:  "TLS between peers. Needs `peer_tls_cert` and `peer_tls_key`.",
			field: func(c *Config) any { return &c.PeerTLS }},
		{Name: "peer_tls_ca", Area: AreaRequests, Type: String, Min: "1", Derived: "the system's", Stage: Value,
			Help:  "File with the certificates of the authorities that peers are checked against (PEM).",
			field: func(c *Config) any { return &c.PeerTLSCA }},
		{Name: "peer_tls_cert", Area: AreaRequests, Type: String, Min: "1", Stage: Value,
			Help:  "File with the certificate of this client (PEM).",
			field: func(c *Config) any { return &c.PeerTLSCert }},
		{Name: "peer_tls_key", Area: AreaRequests, Type: String, Min: "1", Secret: true, Stage: Value,
			Help:  "File with the private key of this client (PEM).",
			field: func(c *Config) any { return &c.PeerTLSKey }},
		{Name: "peer_tls_verify", Area: AreaRequests, Type: Bool, Default: "true", Stage: Value,
			Help:  "Whether the certificates of peers are checked.",
			field: func(c *Config) any { return &c.PeerTLSVerify }},
	}
}

func blank(value any) string {
	if strings.TrimSpace(value.(string)) == "" {
		return "must not be empty"
	}
	return ""
}
