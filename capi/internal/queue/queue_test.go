package queue

import (
	"encoding/binary"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"prosody/capi/internal/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plain is a record of some size that counts what becomes of it.
type plain struct {
	size    int
	number  byte
	encoded atomic.Int32
	dropped atomic.Int32
}

func (p *plain) Size() int { return p.size }
func (p *plain) Encode(buffer []byte) {
	p.encoded.Add(1)
	clear(buffer)
	buffer[0] = p.number
}
func (p *plain) Drop() { p.dropped.Add(1) }

func make8(t require.TestingT) *Queue {
	q, err := New()
	require.NoError(t, err)
	return q
}

func release(q *Queue) {
	q.Close()
	_ = unix.Close(q.Descriptor())
}

func readable(t require.TestingT, q *Queue) bool {
	fds := []unix.PollFd{{Fd: int32(q.Descriptor()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	require.NoError(t, err)
	return n == 1
}

// The bell, the order and the batches of a queue are those of a list, whatever is done.
func TestQueueIsAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := make8(t)
		defer release(q)
		var model []*plain
		woken, number := false, byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				number++
				p := &plain{size: 8 * rapid.IntRange(1, 4).Draw(t, "size"), number: number}
				model = append(model, p)
				assert.True(t, q.Push(p))
			},
			"remove": func(t *rapid.T) {
				if len(model) == 0 {
					assert.False(t, q.Remove(&plain{}))
					return
				}
				i := rapid.IntRange(0, len(model)-1).Draw(t, "which")
				assert.True(t, q.Remove(model[i]))
				assert.False(t, q.Remove(model[i]))
				model = append(model[:i:i], model[i+1:]...)
			},
			"wake": func(*rapid.T) { q.Wake(); woken = true },
			"take": func(t *rapid.T) {
				buffer := make([]byte, 8*rapid.IntRange(0, 10).Draw(t, "capacity"))
				limit := rapid.IntRange(1, 5).Draw(t, "limit")
				batch := q.Take(buffer, limit)
				at, count := 0, 0
				for count < limit && count < len(model) && at+model[count].size <= len(buffer) {
					assert.Equal(t, model[count].number, buffer[at])
					at += model[count].size
					count++
				}
				assert.Equal(t, count, batch.Count)
				assert.Equal(t, at, batch.Size)
				switch {
				case count == 0 && len(model) > 0:
					assert.Equal(t, model[0].size, batch.Need)
				case count == 0:
					assert.Equal(t, woken, batch.Woken)
					woken = false
				}
				model = model[count:]
			},
			"": func(t *rapid.T) { assert.Equal(t, len(model) > 0 || woken, readable(t, q)) },
		})
	})
}

func TestCloseDropsWhatWaitsOnce(t *testing.T) {
	q := make8(t)
	taken, left := &plain{size: 8}, []*plain{{size: 8}, {size: 8}, {size: 8}}
	q.Push(taken)
	for _, p := range left {
		q.Push(p)
	}
	q.Take(make([]byte, 8), 1)
	q.Log(&record.Log{})
	release(q)
	q.Close()
	assert.Zero(t, taken.dropped.Load())
	for _, p := range left {
		assert.EqualValues(t, 1, p.dropped.Load())
		assert.Zero(t, p.encoded.Load())
	}
	assert.False(t, q.Push(&plain{size: 8}))
	assert.False(t, q.Log(&record.Log{}))
	assert.True(t, q.Take(make([]byte, 64), 9).Closed)
}

func TestFatalComesOnce(t *testing.T) {
	q := make8(t)
	defer release(q)
	q.Fatal("one")
	q.Fatal("two")
	batch := q.Take(make([]byte, 256), 9)
	assert.Equal(t, 1, batch.Count)
	assert.False(t, batch.Fatal)
	assert.True(t, q.Take(make([]byte, 256), 9).Fatal)
}

// Lines keep their place among the records; the oldest give way, and a line says so.
func TestLinesAreBoundedAndInOrder(t *testing.T) {
	q := make8(t)
	defer release(q)
	q.Push(&plain{size: 8, number: 1})
	for i := range Lines + 10 {
		q.Log(&record.Log{Text: strconv.Itoa(i)})
	}
	q.Push(&plain{size: 8, number: 2})
	buffer := make([]byte, 1<<20)
	batch := q.Take(buffer, 1<<20)
	require.Equal(t, 1+2+Lines, batch.Count)
	list := split(buffer[:batch.Size])
	assert.Contains(t, list[0], "10 log lines were dropped")
	assert.Equal(t, "1", list[1])
	for i := range Lines {
		assert.Equal(t, strconv.Itoa(i+10), list[2+i])
	}
	assert.Equal(t, "2", list[len(list)-1])
	q.Log(&record.Log{Text: "after"})
	assert.Equal(t, 1, q.Take(buffer, 9).Count)
	assert.False(t, readable(t, q))
}

// split gives the text of each line, and the number of each plain record of 8 bytes.
func split(buffer []byte) (list []string) {
	for len(buffer) > 0 {
		if buffer[1] == 0 && buffer[4] == 0 {
			list = append(list, strconv.Itoa(int(buffer[0])))
			buffer = buffer[8:]
			continue
		}
		size := binary.NativeEndian.Uint32(buffer)
		text := binary.NativeEndian.Uint32(buffer[32:])
		at := record.LogSize + binary.NativeEndian.Uint32(buffer[28:])
		list = append(list, string(buffer[at:at+text]))
		buffer = buffer[size:]
	}
	return list
}

func TestManyWritersAndReaders(t *testing.T) {
	const writers, each = 4, 2000
	q := make8(t)
	defer release(q)
	records := make([]plain, writers*each)
	var group sync.WaitGroup
	var taken atomic.Int32
	for w := range writers {
		group.Go(func() {
			for i := range each {
				records[w*each+i].size = 8
				q.Push(&records[w*each+i])
				q.Log(&record.Log{})
			}
		})
		group.Go(func() {
			buffer := make([]byte, 512)
			for taken.Load() < writers*each {
				batch := q.Take(buffer, 100)
				for at := 0; at < batch.Size; {
					size := int(uint32(buffer[at]) | uint32(buffer[at+1])<<8)
					if size == 0 {
						size = 8
						taken.Add(1)
					}
					at += size
				}
			}
		})
	}
	group.Wait()
	for i := range records {
		assert.EqualValues(t, 1, records[i].encoded.Load())
	}
}

func BenchmarkPushTake(b *testing.B) {
	q := make8(b)
	defer release(q)
	buffer := make([]byte, 64<<10)
	records := make([]plain, 64)
	for i := range records {
		records[i].size = 128
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range records {
			q.Push(&records[i])
		}
		q.Take(buffer, 1<<20)
	}
}
