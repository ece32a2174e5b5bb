package producer_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	. "prosody/core/producer"
)

var (
	again   = Sent{Partition: -1, Offset: -1} // a duplicate
	failure = kafka.Delivery{Err: &kafka.Error{Code: kafka.Unavailable, Text: "down"}}
)

func TestASentEventIsNotSentAgain(t *testing.T) {
	f := &fake{auto: true}
	p, c := start(t, f, time.Second), newCaller()
	defer stop(t, p)
	send := func(name string, out Outgoing) Sent {
		require.NoError(t, p.Send(out, c.done(t, name)))
		sent, ended := c.end(name)
		require.True(t, ended)
		return sent
	}
	assert.EqualValues(t, 0, send("1", message("k", `{"id":"a"}`)).Offset)
	assert.Equal(t, again, send("2", message("k", `{"n":2,"id":"\u0061"}`)), "the id counts, not its spelling")
	assert.EqualValues(t, 1, send("3", message("k2", `{"id":"a"}`)).Offset, "another key")
	other := message("k", `{"id":"a"}`)
	other.Topic = "returns"
	assert.EqualValues(t, 2, send("4", other).Offset, "another topic")
	assert.EqualValues(t, 3, send("5", message("k", `{"id":"a"}`)).Offset, "only two are remembered here")
	raw := message("k", `{"id":"a"}`)
	raw.Raw = true
	assert.EqualValues(t, 4, send("6", raw).Offset, "raw records are never duplicates")
	request := message("k", `{"id":"a"}`)
	request.Reply = &event.Reply{Awaited: []string{"billing"}}
	assert.EqualValues(t, 5, send("7", request).Offset, "nobody could answer a request that is not sent")
	records := f.produced()
	last := records[len(records)-1].Headers
	assert.Equal(t, "response-awaited", last[len(last)-2].Name)
	for n, payload := range []string{`{"ID":"a"}`, `{"id":1}`, `{"id":null}`, `[{"id":"a"}]`, `{"x":{"id":"a"}}`, `"a"`} {
		assert.EqualValues(t, 6+2*n, send(fmt.Sprint("a", n), message("k", payload)).Offset, payload)
		assert.EqualValues(t, 7+2*n, send(fmt.Sprint("b", n), message("k", payload)).Offset, payload)
	}
	assert.EqualValues(t, 1, p.Stats().Duplicates)
}

func TestAConcurrentDuplicateWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		p, c := start(t, f, time.Second), newCaller()
		defer stop(t, p)
		for n := range 3 {
			require.NoError(t, p.Send(message("k", `{"id":"a"}`), c.done(t, fmt.Sprint(n))))
		}
		assert.Len(t, f.produced(), 1)
		f.report(0, failure)
		first, _ := c.end("0")
		assert.Equal(t, fault.Kafka, first.Err.Kind)
		require.Len(t, f.produced(), 2, "one of them goes in its place")
		_, ended := c.end("1")
		assert.False(t, ended)
		f.report(1, kafka.Delivery{Partition: 1, Offset: 9})
		for name, want := range map[string]Sent{"1": {Partition: 1, Offset: 9}, "2": again} {
			sent, ended := c.end(name)
			assert.True(t, ended)
			assert.Equal(t, want, sent)
		}
		assert.Len(t, f.produced(), 2)
	})
}

func TestNobodyIsSentAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		p, c := start(t, f, time.Second), newCaller()
		defer stop(t, p)
		require.NoError(t, p.Send(message("k", `{"id":"a"}`), c.done(t, "first")))
		require.NoError(t, p.Send(message("k", `{"id":"a"}`), c.done(t, "second")))
		time.Sleep(2 * time.Second)
		f.report(0, failure)
		assert.Len(t, f.produced(), 1)
		assert.Zero(t, p.Flights())
	})
}

func TestALateSuccessIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		p, c := start(t, f, time.Second), newCaller()
		defer stop(t, p)
		require.NoError(t, p.Send(message("k", `{"id":"a"}`), c.done(t, "first")))
		time.Sleep(1500 * time.Millisecond)
		require.NoError(t, p.Send(message("k", `{"id":"a"}`), c.done(t, "second")))
		assert.Len(t, f.produced(), 1, "the first may still arrive")
		f.report(0, kafka.Delivery{Offset: 9})
		second, _ := c.end("second")
		assert.Equal(t, again, second)
		require.NoError(t, p.Send(message("k", `{"id":"a"}`), c.done(t, "third")))
		third, _ := c.end("third")
		assert.Equal(t, again, third)
		assert.Equal(t, Stats{Duplicates: 2, Timeouts: 1, Late: 1}, p.Stats())
	})
}

func TestAFullClientQueueDelaysButKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{room: 3}
		p, c := start(t, f, time.Second), newCaller()
		for n := range 20 {
			require.NoError(t, p.Send(message("k", fmt.Sprint(n)), c.done(t, fmt.Sprint(n))))
		}
		assert.Len(t, f.produced(), 3)
		for n := range 15 {
			f.report(n, kafka.Delivery{Offset: int64(n)})
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for n := range 20 {
			sent, ended := c.end(fmt.Sprint(n))
			require.True(t, ended)
			assert.Equal(t, n >= 15, sent.Err != nil)
		}
		for n := 15; n < 18; n++ {
			f.report(n, failure)
		}
		records := f.produced()
		require.Len(t, records, 18, "sends whose time is over are not begun")
		for n, record := range records {
			assert.Equal(t, fmt.Sprint(n), string(record.Value))
		}
		require.NoError(t, p.Send(message("k", "20"), c.done(t, "20")))
		assert.Len(t, f.produced(), 19, "nothing is left in the way")
		stop(t, p)
	})
}

func TestASendFromADoneStaysBehindTheBacklog(t *testing.T) {
	f := &fake{room: 1}
	p, c := start(t, f, time.Minute), newCaller()
	require.NoError(t, p.Send(message("k", "0"), func(Sent) {
		assert.NoError(t, p.Send(message("k", "2"), c.done(t, "2")))
	}))
	require.NoError(t, p.Send(message("k", "1"), c.done(t, "1")))
	f.report(0, kafka.Delivery{})
	f.report(1, kafka.Delivery{})
	f.report(2, kafka.Delivery{})
	for n, record := range f.produced() {
		assert.Equal(t, fmt.Sprint(n), string(record.Value))
	}
	assert.Len(t, c.ends, 2)
	stop(t, p)
}

// Whatever the broker does: each send ends once and by its deadline, at most one send
// of an id succeeds by itself, and nothing stays behind.
func TestEachSendEndsOnce(t *testing.T) {
	type step struct{ What, Which, ID int }
	steps := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) step {
		return step{rapid.IntRange(0, 5).Draw(r, "what"), rapid.IntRange(0, 30).Draw(r, "which"), rapid.IntRange(0, 2).Draw(r, "id")}
	}), 1, 60)
	rapid.Check(t, func(r *rapid.T) {
		plan, room := steps.Draw(r, "steps"), rapid.IntRange(0, 3).Draw(r, "room")
		synctest.Test(t, func(t *testing.T) {
			f := &fake{room: room}
			p, c := start(t, f, time.Second), newCaller()
			sends, accepted := 0, []string{}
			report := func(n int, delivery kafka.Delivery) {
				if n < len(f.produced()) && f.open[n] != nil {
					f.report(n, delivery)
				}
			}
			for _, s := range plan {
				switch s.What {
				case 0, 1, 2:
					name := fmt.Sprint(sends)
					sends++
					if err := p.Send(message("k", fmt.Sprintf(`{"id":"%d"}`, s.ID)), c.done(t, name)); err == nil {
						accepted = append(accepted, name)
					} else {
						assert.Equal(t, fault.Kafka, fault.Of(err))
					}
				case 3:
					report(s.Which, kafka.Delivery{Offset: int64(s.Which)})
				case 4:
					report(s.Which, failure)
				case 5:
					f.refusal = nil
					if s.ID == 0 {
						f.refusal = failure.Err
					}
					time.Sleep(time.Duration(s.Which) * 50 * time.Millisecond)
				}
				synctest.Wait()
			}
			time.Sleep(time.Second)
			synctest.Wait()
			for _, name := range accepted {
				_, ended := c.end(name)
				assert.True(t, ended, name)
			}
			assert.Len(t, c.ends, len(accepted))
			assert.Zero(t, p.Stats().Pending)
			f.refusal = nil
			for n := range f.produced() {
				report(n, failure)
			}
			assert.Zero(t, p.Flights(), "no id stays on its way")
			assert.Zero(t, p.Backlog())
			stop(t, p)
		})
	})
}
