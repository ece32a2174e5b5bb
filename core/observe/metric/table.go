package metric

import (
	"cmp"
	"strconv"

	"go.opentelemetry.io/otel/attribute"

	"prosody/core/consumer"
	"prosody/core/entity"
	"prosody/core/loader"
	"prosody/core/observe"
	"prosody/core/pipeline"
	"prosody/core/pipeline/mode"
	"prosody/core/producer"
	"prosody/core/state"
	"prosody/core/store/disk"
	"prosody/core/timer"
)

// others stands for the topics beyond those that are told apart.
const others = "_OTHER"

// The labels, by the conventions of OpenTelemetry where they have a name for it.
func destination(name string) attribute.KeyValue {
	return attribute.String("messaging.destination.name", name)
}

func place(of *consumer.Partition) []attribute.KeyValue {
	return []attribute.KeyValue{destination(of.Topic), attribute.String("messaging.destination.partition.id", strconv.Itoa(int(of.Partition)))}
}

func operation(name string) attribute.KeyValue {
	return attribute.String("messaging.operation.name", name)
}

func failure(word string) attribute.KeyValue { return attribute.String("error.type", word) }

func why(word string) attribute.KeyValue { return attribute.String("prosody.reason", word) }

// Rows whose facts only a consumer has read nothing without one.
func events(read func(*pipeline.Snapshot, *points)) func(*observe.Facts, *points) {
	return func(f *observe.Facts, to *points) {
		if f.Pipeline != nil {
			read(f.Pipeline, to)
		}
	}
}

func chain(read func(*mode.Facts, *points)) func(*observe.Facts, *points) {
	return func(f *observe.Facts, to *points) {
		if f.Chain != nil {
			read(f.Chain, to)
		}
	}
}

func member(read func(*consumer.Snapshot, *points)) func(*observe.Facts, *points) {
	return func(f *observe.Facts, to *points) {
		if f.Consumer != nil {
			read(f.Consumer, to)
		}
	}
}

func partitions(read func(*consumer.Partition) (value float64, known bool)) func(*observe.Facts, *points) {
	return member(func(s *consumer.Snapshot, to *points) {
		for i := range s.Partitions {
			if value, known := read(&s.Partitions[i]); known {
				to.add(value, place(&s.Partitions[i])...)
			}
		}
	})
}

func timers(read func(*timer.Facts, *points)) func(*observe.Facts, *points) {
	return func(f *observe.Facts, to *points) {
		if f.Timers != nil {
			read(f.Timers, to)
		}
	}
}

func keys(read func(*entity.Facts, *points)) func(*observe.Facts, *points) {
	return func(f *observe.Facts, to *points) {
		if f.Keys != nil {
			read(f.Keys, to)
		}
	}
}

func onDisk(read func(*disk.Facts, *points)) func(*observe.Facts, *points) {
	return keys(func(f *entity.Facts, to *points) {
		if f.Disk != nil {
			read(f.Disk, to)
		}
	})
}

func cells(read func(*state.Facts, *points)) func(*observe.Facts, *points) {
	return func(f *observe.Facts, to *points) {
		if f.Cells != nil {
			read(f.Cells, to)
		}
	}
}

func records(read func(*loader.Facts, *points)) func(*observe.Facts, *points) {
	return func(f *observe.Facts, to *points) {
		if f.Records != nil {
			read(f.Records, to)
		}
	}
}

func sends(read func(*producer.Stats, *points)) func(*observe.Facts, *points) {
	return func(f *observe.Facts, to *points) { read(&f.Producer, to) }
}

// table is all instruments, part by part.
var table = func() (all []instrument) {
	for _, part := range [][]instrument{messaging(), consuming(), handling(), waiting(), storing(), sending(), asking()} {
		all = append(all, part...)
	}
	return all
}()

// messaging is what the conventions of OpenTelemetry have names for.
func messaging() []instrument {
	return []instrument{
		{"messaging.process.duration", "s", "Time that the handler of an event took, one attempt at a time.", histogram,
			events(func(s *pipeline.Snapshot, to *points) {
				for label, durations := range s.Times {
					labels := []attribute.KeyValue{operation("process"), destination(cmp.Or(label.Topic, others)), attribute.String("prosody.event.kind", label.Kind.String())}
					if label.Class != pipeline.Success {
						labels = append(labels, failure(label.Class.String()))
					}
					to.spread(durations, labels...)
				}
			})},
		{"messaging.client.operation.duration", "s", "Time from a send to its acknowledgement or failure.", histogram,
			func(f *observe.Facts, to *points) {
				for word, durations := range f.Sends {
					if word == producer.Done {
						to.spread(durations, operation("send"))
						continue
					}
					to.spread(durations, operation("send"), failure(word))
				}
			}},
		{"messaging.client.sent.messages", "{message}", "Records that were sent, or could not be.", counter,
			sends(func(s *producer.Stats, to *points) {
				to.count(s.Sent, operation("send"))
				to.count(s.Failed, operation("send"), failure("failed"))
				to.count(s.Timeouts, operation("send"), failure("timeout"))
			})},
		{"messaging.client.consumed.messages", "{message}", "Records that were received from assigned partitions.", counter,
			member(func(s *consumer.Snapshot, to *points) { to.count(s.Counters.Received, operation("receive")) })},
		{"db.client.operation.duration", "s", "Time of a call of the store.", histogram,
			func(f *observe.Facts, to *points) {
				for call, durations := range f.Store {
					labels := []attribute.KeyValue{attribute.String("db.operation.name", call.Operation)}
					if call.Fault != "" {
						labels = append(labels, failure(call.Fault))
					}
					to.spread(durations, labels...)
				}
			}},
	}
}

func consuming() []instrument {
	return []instrument{
		{"prosody.consumer.joined", "1", "1 while the client is a member of its group.", gauge,
			member(func(s *consumer.Snapshot, to *points) { to.flag(s.Joined) })},
		{"prosody.consumer.partitions", "{partition}", "Partitions that are assigned.", level,
			member(func(s *consumer.Snapshot, to *points) { to.count(int64(len(s.Partitions))) })},
		{"prosody.consumer.commits", "{commit}", "Commits of offsets; those that failed have an error.type.", counter,
			member(func(s *consumer.Snapshot, to *points) {
				to.count(s.Counters.Commits)
				to.count(s.Counters.CommitFailures, failure("failed"))
			})},
		{"prosody.consumer.filtered", "{message}", "Records that no handler gets, by prosody.reason.", counter,
			member(func(s *consumer.Snapshot, to *points) {
				to.count(s.Counters.Looped, why("source_system"))
				to.count(s.Counters.Unwanted, why("event_type"))
				to.count(s.Counters.Stale, why("stale"))
				to.count(s.Counters.Leaving, why("leaving"))
				to.count(s.Counters.Unassigned, why("unassigned"))
			})},
		{"prosody.consumer.invalid", "{message}", "Records that are no event: no key, no JSON, or too large.", counter,
			member(func(s *consumer.Snapshot, to *points) { to.count(s.Counters.Invalid) })},
		{"prosody.consumer.stalled", "{reason}", "Things that stand still; /livez names them.", gauge,
			func(f *observe.Facts, to *points) { to.count(int64(len(f.Stalled))) }},
		{"prosody.consumer.outages", "{reason}", "Things that wait for something outside; /livez names them and stays green.", gauge,
			func(f *observe.Facts, to *points) { to.count(int64(len(f.Outages))) }},
		{"prosody.partition.lag", "{message}", "Records from the position to the end of the log.", gauge,
			partitions(func(p *consumer.Partition) (float64, bool) { return float64(p.Lag), p.Lag >= 0 })},
		{"prosody.partition.in_flight", "{event}", "Events that are handled now, or wait for a retry in place.", level,
			partitions(func(p *consumer.Partition) (float64, bool) { return float64(p.Running), true })},
		{"prosody.partition.in_flight.age", "s", "Age of the oldest event in flight.", gauge,
			partitions(func(p *consumer.Partition) (float64, bool) { return p.Oldest, true })},
		{"prosody.partition.queued", "{event}", "Events that were received and wait behind their key or for a slot.", level,
			partitions(func(p *consumer.Partition) (float64, bool) { return float64(p.Waiting), true })},
		{"prosody.partition.deferred", "{key}", "Keys with deferred events, as far as this process knows them.", level,
			partitions(func(p *consumer.Partition) (float64, bool) { return float64(p.Deferred), true })},
		{"prosody.partition.uncommitted", "{message}", "Records that were received beyond the position that can be committed.", level,
			partitions(func(p *consumer.Partition) (float64, bool) { return float64(p.Beyond), true })},
		{"prosody.partition.blocked", "{key}", "Keys that stand still after an event without a decision.", level,
			partitions(func(p *consumer.Partition) (float64, bool) { return float64(p.Blocked), true })},
		{"prosody.partition.paused", "1", "1 while nothing is fetched, for too much waits.", gauge,
			partitions(func(p *consumer.Partition) (float64, bool) {
				if p.Paused {
					return 1, true
				}
				return 0, true
			})},
	}
}

func handling() []instrument {
	return []instrument{
		{"prosody.event.outcomes", "{event}", "Events that have ended, by prosody.outcome.", counter,
			member(func(s *consumer.Snapshot, to *points) {
				for word, count := range map[string]int64{
					"success": s.Counters.Succeeded, "permanent": s.Counters.Permanent,
					"transient": s.Counters.Transient, "aborted": s.Counters.Aborted, "ignored": s.Counters.Ignored,
				} {
					to.count(count, attribute.String("prosody.outcome", word))
				}
			})},
		{"prosody.event.attempts", "{attempt}", "Calls of handlers.", counter,
			events(func(s *pipeline.Snapshot, to *points) { to.count(s.Attempts) })},
		{"prosody.event.retries", "{attempt}", "Calls of handlers that repeat a failed one.", counter,
			events(func(s *pipeline.Snapshot, to *points) { to.count(s.Retries) })},
		{"prosody.event.timeouts", "{attempt}", "Calls of handlers whose time was over.", counter,
			events(func(s *pipeline.Snapshot, to *points) { to.count(s.Timeouts) })},
		{"prosody.event.duplicates", "{event}", "Events that were done before and skipped.", counter,
			events(func(s *pipeline.Snapshot, to *points) { to.count(s.Duplicates) })},
		{"prosody.event.deferred", "{event}", "Events that were put aside, for they failed or others of their key wait.", counter,
			events(func(s *pipeline.Snapshot, to *points) { to.count(s.Deferred) })},
		{"prosody.event.lost", "{event}", "Deferred events whose record is not in the log any more.", counter,
			events(func(s *pipeline.Snapshot, to *points) { to.count(s.Lost) })},
		{"prosody.event.discarded", "{event}", "Events that were given up without a dead letter; the log has a line of each.", counter,
			events(func(s *pipeline.Snapshot, to *points) { to.count(s.Discarded) })},
		{"prosody.dead_letters", "{message}", "Copies written to the failure topic; attempts that failed have an error.type.", counter,
			events(func(s *pipeline.Snapshot, to *points) {
				to.count(s.DeadLetters)
				to.count(s.Unsent, failure("failed"))
			})},
		{"prosody.permits.used", "{handler}", "Handlers that run now.", level,
			chain(func(f *mode.Facts, to *points) { to.count(int64(f.Used)) })},
		{"prosody.permits.limit", "{handler}", "Handlers that may run at once (max_concurrency).", level,
			chain(func(f *mode.Facts, to *points) { to.count(int64(f.Permits)) })},
		{"prosody.permits.waiting", "{event}", "Events that wait for a permit.", level,
			events(func(s *pipeline.Snapshot, to *points) { to.count(s.Waiting) })},
		{"prosody.gate.failure_rate", "1", "Share of failed first deliveries of a topic within defer_failure_window.", gauge,
			chain(func(f *mode.Facts, to *points) {
				for _, gate := range f.Gates {
					to.add(gate.Rate, destination(gate.Topic))
				}
			})},
		{"prosody.gate.closed", "1", "1 while so many events of a topic fail that none is deferred.", gauge,
			chain(func(f *mode.Facts, to *points) {
				for _, gate := range f.Gates {
					to.flag(!gate.Open, destination(gate.Topic))
				}
			})},
		{"prosody.monopoly.keys", "{key}", "Keys that are held back, for they took nearly all the time.", level,
			chain(func(f *mode.Facts, to *points) { to.count(int64(f.Monopolized)) })},
	}
}

func waiting() []instrument {
	return []instrument{
		{"prosody.timers.active", "{timer}", "Timers and retries in memory that wait for their time.", level,
			timers(func(f *timer.Facts, to *points) { to.count(int64(f.Waiting)) })},
		{"prosody.timers.in_flight", "{timer}", "Timers that are handled now.", level,
			timers(func(f *timer.Facts, to *points) { to.count(int64(f.Firing)) })},
		{"prosody.timers.retries", "{retry}", "Retries of deferred events that are handled now.", level,
			timers(func(f *timer.Facts, to *points) { to.count(int64(f.Retries)) })},
		{"prosody.timers.overdue", "{timer}", "Timers and retries whose time is over and that have not ended.", level,
			timers(func(f *timer.Facts, to *points) { to.count(int64(f.Overdue)) })},
		{"prosody.timers.oldest_overdue_seconds", "s", "How long the earliest of them is overdue.", gauge,
			timers(func(f *timer.Facts, to *points) { to.add(f.Oldest) })},
		{"prosody.timers.lateness", "s", "Time from when a timer or retry was due to its start.", histogram,
			timers(func(f *timer.Facts, to *points) { to.spread(f.Late) })},
	}
}

func storing() []instrument {
	return []instrument{
		{"prosody.state.cell.loads", "{cell}", "Cells of collections that were read from the store.", counter,
			cells(func(f *state.Facts, to *points) { to.count(f.Cells) })},
		{"prosody.state.cell.load.duration", "s", "Time of a read of cells from the store.", histogram,
			cells(func(f *state.Facts, to *points) { to.spread(f.Reads) })},
		{"prosody.state.commits", "{commit}", "Writes of a key's record; those that failed have an error.type.", counter,
			keys(func(f *entity.Facts, to *points) {
				to.count(f.Commits - f.Failures)
				to.count(f.Failures, failure("failed"))
			})},
		{"prosody.state.retries", "{attempt}", "Reads and writes of a key's record that failed and were repeated.", counter,
			events(func(s *pipeline.Snapshot, to *points) { to.count(s.Unstored) })},
		{"prosody.state.keys", "{key}", "Keys whose record is in memory.", level,
			keys(func(f *entity.Facts, to *points) { to.count(int64(f.Loaded)) })},
		{"prosody.state.keys.size", "By", "Memory of these records.", level,
			keys(func(f *entity.Facts, to *points) { to.count(f.Bytes) })},
		{"prosody.state.keys.unwritten", "{key}", "Keys with done marks that are not written yet; offset commits wait for them.", level,
			keys(func(f *entity.Facts, to *points) { to.count(int64(f.Unwritten)) })},
		{"prosody.cache.lookups", "{lookup}", "Lookups by prosody.cache (keys, cells, records, disk_keys, disk_rows) and prosody.result (hit, miss).", counter,
			func(f *observe.Facts, to *points) {
				cache := func(name string, hits, misses int64) {
					to.count(hits, attribute.String("prosody.cache", name), attribute.String("prosody.result", "hit"))
					to.count(misses, attribute.String("prosody.cache", name), attribute.String("prosody.result", "miss"))
				}
				if f.Keys != nil {
					cache("keys", f.Keys.Hits, f.Keys.Loads)
					if disk := f.Keys.Disk; disk != nil {
						cache("disk_keys", disk.Keys.Hits, disk.Keys.Misses)
						cache("disk_rows", disk.Rows.Hits, disk.Rows.Misses)
					}
				}
				if f.Cells != nil {
					cache("cells", f.Cells.Hits, f.Cells.Misses)
				}
				if f.Records != nil {
					cache("records", f.Records.Hits, f.Records.Reads)
				}
			}},
		{"prosody.cache.disk.size", "By", "Files of the disk cache.", level,
			onDisk(func(f *disk.Facts, to *points) { to.count(f.Bytes) })},
		{"prosody.cache.disk.limit", "By", "What these files may have (state_disk_cache_size).", level,
			onDisk(func(f *disk.Facts, to *points) { to.count(f.Limit) })},
		{"prosody.cache.disk.entries", "{entry}", "Keys and rows that these files were given; newer ones replace older.", level,
			onDisk(func(f *disk.Facts, to *points) { to.count(f.Entries) })},
		{"prosody.cache.disk.faults", "{fault}", "Faults of the disk cache; each has emptied it.", counter,
			onDisk(func(f *disk.Facts, to *points) { to.count(f.Faults) })},
		{"prosody.records.failures", "{read}", "Reads of old records that failed.", counter,
			records(func(f *loader.Facts, to *points) { to.count(f.Failures) })},
	}
}

func sending() []instrument {
	return []instrument{
		{"prosody.producer.pending", "{message}", "Sends that have not ended.", level,
			sends(func(s *producer.Stats, to *points) { to.count(s.Pending) })},
		{"prosody.producer.duplicates", "{message}", "Sends that were skipped, for their id was sent before.", counter,
			sends(func(s *producer.Stats, to *points) { to.count(s.Duplicates) })},
		{"prosody.telemetry.records", "{message}", "Telemetry records that were sent; those that were not have an error.type (dropped, failed).", counter,
			func(f *observe.Facts, to *points) {
				if f.Telemetry != nil {
					to.count(f.Telemetry.Sent)
					to.count(f.Telemetry.Dropped, failure("dropped"))
					to.count(f.Telemetry.Failed, failure("failed"))
				}
			}},
		{"prosody.producer.late", "{message}", "Acknowledgements that came after send_timeout.", counter,
			sends(func(s *producer.Stats, to *points) { to.count(s.Late) })},
	}
}
