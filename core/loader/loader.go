// Package loader owns the second reading of records: by topic, partition and offset,
// for deferred events whose payload is only in the log. It keeps the last ones, and one
// client for all, which is made at the first use.
//
// It upholds I4: what is kept is bounded by a number of records.
package loader

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"prosody/core/fault"
	"prosody/core/kafka"
)

// Options say where and how to read.
type Options struct {
	Cluster    kafka.Cluster
	Servers    []string
	Properties map[string]string
	Timeout    time.Duration // loader_seek_timeout
	Discard    int           // loader_discard_threshold
	Cache      int           // loader_cache_size, in records
	Log        *slog.Logger
}

// Loader reads records. It needs a Close.
type Loader struct {
	options Options

	hits, reads, failures atomic.Int64

	mutex  sync.Mutex
	reader kafka.Reader // nil before the first use
	closed bool
	kept   map[place]*list.Element
	recent *list.List // of *kafka.Record, the one used last in front
}

type place struct {
	at     kafka.Partition
	offset int64
}

// New makes a loader.
func New(options Options) *Loader {
	return &Loader{options: options, kept: map[place]*list.Element{}, recent: list.New()}
}

// Read gives a record. A kafka.Error with the code Gone: it is not there any more.
func (l *Loader) Read(ctx context.Context, at kafka.Partition, offset int64) (*kafka.Record, error) {
	where := place{at, offset}
	reader, record, err := l.look(where)
	if record != nil {
		l.hits.Add(1)
	}
	if record != nil || err != nil {
		return record, err
	}
	l.reads.Add(1)
	record, err = reader.Read(ctx, at, offset)
	if err != nil {
		l.failures.Add(1)
		return nil, err
	}
	l.keep(where, record)
	return record, nil
}

// Facts are what a loader has counted, and how many records it keeps.
type Facts struct {
	Hits     int64 `json:"hits"` // records that were kept
	Reads    int64 `json:"reads"`
	Failures int64 `json:"failures"`
	Kept     int   `json:"kept"`
}

// Snapshot reads the state.
func (l *Loader) Snapshot() Facts {
	l.mutex.Lock()
	kept := l.recent.Len()
	l.mutex.Unlock()
	return Facts{Hits: l.hits.Load(), Reads: l.reads.Load(), Failures: l.failures.Load(), Kept: kept}
}

// Kept gives a record that is in memory, or nil.
func (l *Loader) Kept(at kafka.Partition, offset int64) *kafka.Record {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	found := l.kept[place{at, offset}]
	if found == nil {
		return nil
	}
	l.recent.MoveToFront(found)
	return found.Value.(*kafka.Record)
}

// look finds a record that is kept, or the client to read it with.
func (l *Loader) look(where place) (kafka.Reader, *kafka.Record, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed {
		return nil, nil, fault.New(fault.Closed, "the loader of records is closed")
	}
	if found := l.kept[where]; found != nil {
		l.recent.MoveToFront(found)
		return nil, found.Value.(*kafka.Record), nil
	}
	if l.reader == nil {
		made, err := l.options.Cluster.Reader(kafka.ReaderConfig{
			Servers: l.options.Servers, Properties: l.options.Properties,
			Timeout: l.options.Timeout, Discard: l.options.Discard, OnLog: l.line,
		})
		if err != nil {
			return nil, nil, fault.Wrap(fault.Kafka, err, "loader of records")
		}
		l.reader = made
	}
	return l.reader, nil, nil
}

func (l *Loader) keep(where place, record *kafka.Record) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed || l.kept[where] != nil || l.options.Cache <= 0 {
		return
	}
	l.kept[where] = l.recent.PushFront(record)
	if oldest := l.recent.Back(); l.recent.Len() > l.options.Cache {
		gone := l.recent.Remove(oldest).(*kafka.Record)
		delete(l.kept, place{kafka.Partition{Topic: gone.Topic, Index: gone.Partition}, gone.Offset})
	}
}

// Drop forgets the records of a partition: its log may have been made anew.
func (l *Loader) Drop(at kafka.Partition) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for where, element := range l.kept {
		if where.at == at {
			l.recent.Remove(element)
			delete(l.kept, where)
		}
	}
}

func (l *Loader) line(level int, text string) {
	if level <= 4 {
		l.options.Log.Warn(text)
		return
	}
	l.options.Log.Debug(text)
}

// Close ends what is being read.
func (l *Loader) Close() error {
	l.mutex.Lock()
	reader := l.reader
	l.closed, l.reader = true, nil
	clear(l.kept)
	l.recent.Init()
	l.mutex.Unlock()
	if reader == nil {
		return nil
	}
	return reader.Close()
}
