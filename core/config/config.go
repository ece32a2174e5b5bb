// Package config owns the options of Prosody: one table names every option with its environment
// variable, type, default, range and the field of Config that it fills. The parser, the checks, the
// documentation and the type information for the bindings all read that table.
//
// The package upholds that nothing a host sets is silently ignored: a name, value or combination that
// has no meaning is a Fault, and every fault is reported at once.
package config

import "time"

// Config is the outcome of Resolve. Durations and ports that are switched off hold the value that the
// field's comment names. Print it freely: every text form of it hides secrets.
type Config struct {
	// Core.
	BootstrapServers []string
	GroupID          string
	SourceSystem     string // the group id where not set
	Mode             string // ModePipeline, ModeLowLatency or ModeBestEffort
	Mock             bool

	// Requests between peers.
	Subsystem             string
	PeerBindAddress       string // empty: all interfaces, port 9099
	PeerAdvertisedConnect string
	PeerNetworkName       string
	PeerCacheCapacity     int
	PeerRegistrationTTL   time.Duration
	PeerTLS               bool
	PeerTLSCA             string
	PeerTLSCert           string
	PeerTLSKey            string
	PeerTLSVerify         bool

	// Consumer.
	SubscribedTopics   []string
	AllowedEvents      []string // nil: all
	InvalidRecords     string   // InvalidSkip or InvalidDeadLetter
	FailureTopic       string
	MaxConcurrency     int
	MaxUncommitted     int
	Timeout            time.Duration
	CommitInterval     time.Duration
	PollInterval       time.Duration
	ShutdownTimeout    time.Duration
	StallThreshold     time.Duration
	SlabSize           time.Duration // whole seconds
	IdempotenceVersion string
	IdempotenceTTL     time.Duration

	// Producer.
	SendTimeout          time.Duration // 0: no limit
	IdempotenceCacheSize int

	// Retry.
	MaxRetries    int
	RetryBase     time.Duration
	MaxRetryDelay time.Duration

	// Deferral.
	DeferEnabled          bool
	DeferBase             time.Duration
	DeferMaxDelay         time.Duration
	DeferFailureThreshold float64
	DeferFailureWindow    time.Duration
	DeferStoreCacheSize   int

	// Loader of deferred messages.
	LoaderCacheSize        int
	LoaderSeekTimeout      time.Duration
	LoaderDiscardThreshold int

	// Monopolization.
	MonopolizationEnabled   bool
	MonopolizationThreshold float64
	MonopolizationWindow    time.Duration
	MonopolizationCacheSize int

	// Scheduling.
	SchedulerFailureWeight float64
	SchedulerMaxWait       time.Duration
	SchedulerWaitWeight    float64
	SchedulerCacheSize     int

	// Telemetry.
	TelemetryTopic     string
	TelemetryEnabled   bool
	StatisticsInterval time.Duration
	ProbePort          int // -1: no probe server
	StatusPage         bool
	MessageSpans       string // SpanChild or SpanFollows
	TimerSpans         string
	Log                string

	// Cassandra.
	CassandraNodes       []string
	CassandraKeyspace    string
	CassandraUser        string
	CassandraPassword    string
	CassandraDatacenter  string
	CassandraRack        string
	CassandraRetention   time.Duration
	CassandraReplication string // empty: SimpleStrategy:1, for a cluster of one node only
	CassandraSchema      string // SchemaCreate or SchemaVerify
	CassandraTLS         bool
	CassandraTLSCA       string
	CassandraTLSCert     string
	CassandraTLSKey      string
	CassandraTLSVerify   bool

	// Keyed state.
	Collections         []Collection
	StateCacheDir       string
	StateOwnedCacheSize int64
	StateDiskCacheSize  int64
	StateMemtableSize   int64
	StateReadCacheSize  int64
	StateReadCache      time.Duration // 0: published state is read anew each time
	StateRecoveryDelay  time.Duration // whole seconds

	// Topic administration.
	TopicName              string
	TopicPartitions        int // 0: as the broker decides
	TopicReplicationFactor int // 0: as the broker decides
	TopicCleanupPolicy     string
	TopicRetention         time.Duration // 0: as the broker decides

	// Kafka holds librdkafka properties without the prefix "kafka.".
	Kafka map[string]string

	// Notes are remarks for the log: settings that look like a mistake but are no fault.
	Notes []string

	given map[string]Origin
}

// Tokens of the options that take one of a few words.
const (
	ModePipeline      = "pipeline"
	ModeLowLatency    = "low-latency"
	ModeBestEffort    = "best-effort"
	InvalidSkip       = "skip"
	InvalidDeadLetter = "dead-letter"
	SpanChild         = "child"
	SpanFollows       = "follows_from"
	SchemaCreate      = "create"
	SchemaVerify      = "verify"
)

// Origin says where the value of an option came from.
type Origin int

// The origins, weakest first.
const (
	Defaulted Origin = iota
	Environment
	Explicit
)

// Origin returns where the value of the named option came from.
func (c *Config) Origin(name string) Origin { return c.given[name] }
