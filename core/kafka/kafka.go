// Package kafka is the port through which the core reaches a Kafka cluster.
//
// It owns the words that the core and both adapters share: records, positions
// and the calls of a consumer, a producer and an admin client. The adapters are
// confluent (a real cluster) and memory (the embedded one of mock mode); one
// contract suite, in kafkatest, holds for both.
//
// The port carries no invariant of its own. It makes I3 and I6 possible: a
// partition is given up only by Release, after the caller has committed, and
// every assignment is told from a loss.
package kafka

import (
	"context"
	"time"
)

// Header is one header of a record. Names may repeat; the order counts.
type Header struct {
	Name  string
	Value []byte // nil is a null value
}

// Record is one record of a log. Whoever receives it must not change it.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Timestamp int64  // milliseconds since the epoch; -1 when the log has none
	Key       []byte // nil is a null key
	Value     []byte // nil is a null value, a tombstone
	Headers   []Header
}

// Partition names one partition of one topic.
type Partition struct {
	Topic string
	Index int32
}

// Position is a place in the log of a partition: the offset of the next record.
type Position struct {
	Partition
	Offset int64
}

// Events is what one Poll found. Any of the fields may be empty. They are to be
// taken in this order: Lost, Revoked, Assigned, Records. A partition that is in
// both Lost and Assigned starts again: its log was made anew, or the group moved on.
type Events struct {
	// Records in log order for each partition. Only of assigned partitions.
	Records []*Record
	// Assigned partitions start to deliver after this Poll, at the committed
	// position or at the log's beginning.
	Assigned []Partition
	// Revoked partitions deliver nothing from now on. The group waits until the
	// caller has called Release for each of them; commits still work.
	Revoked []Partition
	// Lost partitions belong to somebody else already; nothing can be committed
	// and Release is not needed.
	Lost []Partition
	// Errors that the client library reports; it goes on by itself unless Fatal.
	Errors []error
}

// Consumer is one member of a consumer group.
//
// Poll is called by one goroutine; the other methods are safe from any.
type Consumer interface {
	// Subscribe joins the group. A topic that starts with ^ is a regular
	// expression.
	Subscribe(topics []string) error
	// Poll waits at most wait for something to report. It returns at most about
	// limit records.
	Poll(wait time.Duration, limit int) Events
	// Pause stops the delivery of partitions; records that Poll has not returned
	// yet come again after Resume. Unassigned partitions are ignored. An assignment
	// starts unpaused, unless the same Events tells that the partition was lost.
	Pause(partitions []Partition) error
	Resume(partitions []Partition) error
	// Commit writes positions to the group and waits for the answer.
	Commit(ctx context.Context, positions []Position) error
	// Release gives revoked partitions up.
	Release(partitions []Partition) error
	// Lag tells the end of a partition's log as last seen, or false.
	End(partition Partition) (int64, bool)
	// Count tells how many partitions a topic has, as last seen, or false.
	Count(topic string) (int, bool)
	// Joined tells whether the member is in the group, with or without partitions.
	Joined() bool
	// Close leaves the group and frees the client. A Poll that waits returns. All
	// partitions have to be released before; those that are not count as lost.
	Close() error
}

// Delivery is the end of one Produce: the place of the record, or an error.
type Delivery struct {
	Partition int32
	Offset    int64
	Err       error
}

// Producer writes records.
type Producer interface {
	// Produce hands a record over; Partition and Offset of it are ignored: the
	// place is the CRC32 of the key modulo the number of partitions, unless
	// kafka.partitioner says otherwise. done is called once, from any goroutine,
	// and must not block. An error is returned when the record is refused at once,
	// and then done is not called.
	Produce(record *Record, done func(Delivery)) error
	// Close waits for what is on its way, at most until ctx ends, and frees the
	// client. What is left then ends with an error.
	Close(ctx context.Context) error
}

// Topic says how a topic is to be made. Zero values mean the broker's default.
type Topic struct {
	Name        string
	Partitions  int
	Replication int
	Config      map[string]string // cleanup.policy, retention.ms, …
}

// Admin manages topics.
type Admin interface {
	// Create makes a topic and waits until it can be used.
	Create(ctx context.Context, topic Topic) error
	// Delete removes a topic; an absent one is no error.
	Delete(ctx context.Context, name string) error
	// Topics lists the topics with their partition counts. Names that start with
	// __ are left out.
	Topics(ctx context.Context) (map[string]int, error)
	Close() error
}

// Reader reads single records again. It belongs to no group. It is safe for use by many
// goroutines; calls for the same partition share one pass over its log.
type Reader interface {
	// Read gives the record at an offset. An *Error of the code Gone: the log has none
	// there, and never will have; of TimedOut: no broker has told in time.
	Read(ctx context.Context, at Partition, offset int64) (*Record, error)
	Close() error
}

// ReaderConfig says how a reader reads.
type ReaderConfig struct {
	Servers    []string
	Timeout    time.Duration // of one Read; 0: 30 s
	Discard    int           // records that are read and dropped rather than sought over
	Properties map[string]string
	OnLog      func(level int, text string)
}

// ConsumerConfig says how a consumer joins.
type ConsumerConfig struct {
	Servers    []string
	Group      string
	Properties map[string]string // librdkafka properties passed through; memory ignores them
	// OnLog takes a line of the client library's own log.
	OnLog func(level int, text string)
}

// ProducerConfig says how a producer connects.
type ProducerConfig struct {
	Servers     []string
	SendTimeout time.Duration // 0: none
	Properties  map[string]string
	Lossy       bool // records may be lost or doubled: the leader alone acknowledges them
	OnLog       func(level int, text string)
}

// Cluster makes the clients of one adapter.
type Cluster interface {
	Consumer(ConsumerConfig) (Consumer, error)
	Producer(ProducerConfig) (Producer, error)
	Reader(ReaderConfig) (Reader, error)
	Admin(servers []string, properties map[string]string) (Admin, error)
}

// Code says what kind of failure an adapter met.
type Code int

// The kinds of failure.
const (
	Unknown      Code = iota // transient
	Unavailable              // no broker answers; transient
	TimedOut                 // transient
	TooLarge                 // the record is over a limit; permanent
	UnknownTopic             // transient: it may be created
	BadTopic                 // the name is not allowed; permanent
	Exists                   // the topic is there already
	Denied                   // authentication or authorisation
	BadConfig                // the client library refuses its settings; permanent
	Fatal                    // the client is unusable from now on
	Closed                   // the client was closed
	Rebalancing              // a commit met a rebalance; transient
	Stale                    // the member is not in the group any more; what it held is lost
	BadRecord                // the broker refuses the record; permanent
	Full                     // the client's own queue is full: Produce again after a delivery; transient
	Gone                     // no record is at that offset: deleted or compacted; permanent
)

// Error is a failure of an adapter.
type Error struct {
	Code Code
	Text string
}

func (e *Error) Error() string { return e.Text }

// Permanent tells whether trying again is pointless.
func (e *Error) Permanent() bool {
	switch e.Code {
	case TooLarge, BadTopic, BadConfig, Exists, BadRecord, Gone:
		return true
	}
	return false
}
