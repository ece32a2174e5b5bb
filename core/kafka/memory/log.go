package memory

import (
	"sort"
	"sync"
	"sync/atomic"

	"prosody/core/kafka"
)

const (
	overhead = 82   // of one record alone in a batch, at most
	framing  = 10   // of one header, at most
	dirty    = 4096 // new records before a log is compacted by itself
)

// size is what a record counts on the wire, at most.
func size(record *kafka.Record) int {
	total := overhead + len(record.Key) + len(record.Value)
	for _, header := range record.Headers {
		total += framing + len(header.Name) + len(header.Value)
	}
	return total
}

// entry is a record with its place among all records of the broker.
type entry struct {
	*kafka.Record
	order int64
}

// log is one partition: records in order of their offsets, which may have holes.
type log struct {
	topic *topic
	index int32

	mutex   sync.Mutex
	records []entry
	start   int64 // the first offset that retention left
	clean   int64 // compaction has seen the offsets below
	bytes   int
	gone    bool // the topic was deleted
	waiting []chan<- struct{}

	end atomic.Int64 // the next offset; written under mutex
}

func (l *log) partition() kafka.Partition {
	return kafka.Partition{Topic: l.topic.name, Index: l.index}
}

// add appends a record, which it then shares with readers. False: the log is gone.
func (l *log) add(record *kafka.Record) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.gone {
		return false
	}
	end := l.end.Load()
	record.Offset = end
	l.records = append(l.records, entry{record, l.topic.appended.Add(1)})
	l.bytes += size(record)
	for l.bytes > l.topic.retention && len(l.records) > 1 {
		l.drop()
	}
	if fresh := int(end - l.clean); l.topic.compact && fresh >= dirty && fresh >= len(l.records)/2 {
		l.tidy()
	}
	l.end.Store(end + 1)
	for _, wake := range l.waiting {
		poke(wake)
	}
	return true
}

func (l *log) drop() {
	oldest := l.records[0]
	l.bytes -= size(oldest.Record)
	l.start = oldest.Offset + 1
	l.records[0] = entry{}
	l.records = l.records[1:]
}

// tidy keeps the newest record of each key; a tombstone goes at its second tidy.
// Records without a key and the newest record stay.
func (l *log) tidy() {
	newest := make(map[string]int64, len(l.records))
	for _, record := range l.records {
		if record.Key != nil {
			newest[string(record.Key)] = record.Offset
		}
	}
	kept := make([]entry, 0, len(newest))
	l.bytes = 0
	for i, record := range l.records {
		past := newest[string(record.Key)] != record.Offset || record.Value == nil && record.Offset < l.clean
		if past && record.Key != nil && i < len(l.records)-1 {
			continue
		}
		kept = append(kept, record)
		l.bytes += size(record.Record)
	}
	l.records = kept
	l.clean = kept[len(kept)-1].Offset + 1
}

func (l *log) compact() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.records) > 0 {
		l.tidy()
	}
}

// read appends to found at most limit records from an offset on. It tells the offset
// after the last of them, and where it began: higher when retention took over.
func (l *log) read(found []*kafka.Record, offset int64, limit int) (_ []*kafka.Record, next, from int64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	from = max(offset, l.start)
	at := sort.Search(len(l.records), func(i int) bool { return l.records[i].Offset >= from })
	rest := l.records[at:]
	if len(rest) == 0 {
		return found, max(from, l.end.Load()), from
	}
	rest = rest[:min(limit, len(rest))]
	for i := range rest {
		found = append(found, rest[i].Record)
	}
	return found, rest[len(rest)-1].Offset + 1, from
}

// position is where a group begins to read: at its offset where it has one that is in
// the log, at the log's beginning otherwise.
func (l *log) position(committed int64, has bool) (offset int64, reset bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if has && committed >= l.start && committed <= l.end.Load() {
		return committed, false
	}
	return l.start, has
}

func (l *log) watch(wake chan<- struct{}) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.waiting = append(l.waiting, wake)
}

func (l *log) unwatch(wake chan<- struct{}) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for i := range l.waiting {
		if l.waiting[i] == wake {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return
		}
	}
}

func (l *log) remove() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.gone, l.records = true, nil
}

func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
