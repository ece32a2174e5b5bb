package deferral_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/kafka"
	"prosody/core/pipeline"
	"prosody/core/pipeline/mode"
	. "prosody/core/pipeline/pipelinetest"
)

func TestLargePayloadsComeFromTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil)
		large := `"` + strings.Repeat("x", 70_000) + `"`
		b.script = failing(large, 1, Fail("boom"))
		message := b.message(large)
		message.Headers = []kafka.Header{{Name: "h", Value: []byte("1")}}
		tries := 0
		b.read = func(at kafka.Partition, offset int64) (*kafka.Record, error) {
			assert.Equal(t, message.At(), at)
			assert.Equal(t, message.Offset, offset)
			if tries++; tries == 1 {
				return nil, &kafka.Error{Code: kafka.TimedOut, Text: "no answer"}
			}
			return &kafka.Record{Topic: at.Topic, Partition: at.Index, Offset: offset, Timestamp: message.Timestamp, Key: []byte("k"),
				Value: []byte(large), Headers: message.Headers}, nil
		}
		b.handle(message)
		assert.Equal(t, pipeline.Success, b.retry(), "no answer: later")
		assert.Len(t, b.lines, 1)
		assert.Equal(t, pipeline.Success, b.retry())
		assert.Len(t, b.lines, 2)
		assert.Zero(t, b.due)
	})
}

func TestAnotherRecordAtItsOffsetIsALoss(t *testing.T) {
	for _, change := range []func(*kafka.Record){
		func(r *kafka.Record) { r.Key = []byte("other") },
		func(r *kafka.Record) { r.Timestamp++ },
		func(r *kafka.Record) { r.Timestamp-- },
	} {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, nil)
			large := `"` + strings.Repeat("x", 70_000) + `"`
			b.script = failing(large, 1, Fail("boom"))
			message := b.message(large)
			b.read = func(at kafka.Partition, offset int64) (*kafka.Record, error) {
				record := &kafka.Record{
					Topic: at.Topic, Partition: at.Index, Offset: offset, Timestamp: message.Timestamp, Key: []byte("k"), Value: []byte(large),
				}
				change(record)
				return record, nil
			}
			b.handle(message)
			assert.Equal(t, pipeline.Permanent, b.retry())
			assert.Len(t, b.lines, 1)
			assert.Contains(t, b.log.String(), "made anew")
			assert.Zero(t, b.due)
		})
	}
}

func TestLostRecordsAreDeadLetters(t *testing.T) {
	for _, topic := range []string{"", "failures"} {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, func(o *mode.Options) { o.FailureTopic = topic })
			large := `"` + strings.Repeat("x", 70_000) + `"`
			b.script = failing(large, 1, Fail("boom"))
			b.read = func(kafka.Partition, int64) (*kafka.Record, error) {
				return nil, &kafka.Error{Code: kafka.Gone, Text: "deleted"}
			}
			b.handle(b.message(large))
			b.handle(b.message("2"))
			class := b.retry()
			if topic == "" {
				assert.Equal(t, pipeline.Permanent, class)
				assert.Empty(t, b.sent)
			} else {
				assert.Equal(t, pipeline.Success, class)
				require.Len(t, b.sent, 1)
				assert.Equal(t, "k", b.sent[0].Key)
			}
			told := 0
			for line := range strings.Lines(b.log.String()) {
				if strings.Contains(line, "discarding message") || strings.Contains(line, "copying record to the failure topic") {
					told++
					for _, part := range []string{"deleted", "topic=", "partition=", "offset=", "key=k"} {
						assert.Contains(t, line, part)
					}
				}
			}
			assert.Equal(t, 1, told, b.log.String())
			assert.EqualValues(t, 1, b.chain.Counts.Snapshot().Lost)
			b.retry()
			assert.Equal(t, "2 0 success", b.lines[len(b.lines)-1])
			assert.Zero(t, b.due)
		})
	}
}
