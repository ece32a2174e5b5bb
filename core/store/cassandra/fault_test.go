package cassandra

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/fault"
	"prosody/core/store"
	"prosody/core/store/storetest"
)

func name(t *testing.T) string { return fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano()) }

func slot(coordinate string) store.Slot { return store.Slot{Kind: store.Cell, Coordinate: coordinate} }

func put(coordinate, data string) store.Put {
	return store.Put{Row: store.Row{Slot: slot(coordinate), Data: []byte(data)}}
}

// Lost answers: the request is sent again, and counts once.
func TestLostAnswers(t *testing.T) {
	l := newLine()
	s := connect(t, Options{dialer: l})
	ctx := t.Context()
	key := store.Key{Group: "g", Topic: "t", Key: name(t)}
	shard, slab := store.Shard{Group: "g", Topic: key.Key}, store.Slab{Start: 600, Size: 600}
	lose := func(kind string, call func() error) {
		t.Helper()
		eventually(t, call) // prepares its statements
		l.swallow.Store(1)
		eventually(t, call) // the pool may be empty for a moment
		require.Negative(t, l.swallow.Load()-1, "%s: no answer was lost", kind)
	}
	root := func(stamp int64) store.Batch { return store.Batch{Stamp: stamp, Root: []byte("r")} }
	batch := store.Batch{Stamp: 20, Root: []byte("2"), Puts: []store.Put{put("a", "1"), put("b", "1")}, Deletes: []store.Slot{slot("c")},
		Ranges: []store.Range{{Kind: store.Cell, From: "x"}, {Kind: store.Cell, From: "p", To: "q"}}}
	lose("one write", func() error { return s.Apply(ctx, key, root(10)) })
	lose("batch", func() error { return s.Apply(ctx, key, batch) })
	lose("delete", func() error { return s.Apply(ctx, key, store.Batch{Stamp: 30, Deletes: []store.Slot{slot("a")}}) })
	lose("range", func() error { return s.Apply(ctx, key, store.Batch{Stamp: 30, Ranges: batch.Ranges}) })
	lose("scan", func() error {
		rows, more, err := s.Scan(ctx, key, store.Range{Kind: store.Cell}, false, 10)
		if err != nil {
			return err
		}
		require.False(t, more)
		require.Equal(t, []store.Row{put("b", "1").Row}, rows)
		return nil
	})
	lose("backward", func() error {
		rows, _, err := s.Scan(ctx, key, store.Range{Kind: store.Cell}, true, 10)
		if err != nil {
			return err
		}
		require.Len(t, rows, 1)
		return nil
	})
	lose("root", func() error {
		data, err := s.Root(ctx, key)
		if err != nil {
			return err
		}
		require.Equal(t, "2", string(data))
		return nil
	})
	lose("get", func() error {
		data, err := s.Get(ctx, key, []store.Slot{slot("b"), slot("a")})
		if err != nil {
			return err
		}
		require.Equal(t, [][]byte{[]byte("1"), nil}, data)
		return nil
	})
	lose("add hint", func() error { return s.AddHint(ctx, shard, slab, "k", 10, time.Hour) })
	lose("hints", func() error {
		keys, err := s.Hints(ctx, shard, slab, "", 10)
		if err != nil {
			return err
		}
		require.Equal(t, []string{"k"}, keys)
		return nil
	})
	lose("slabs", func() error {
		slabs, err := s.Slabs(ctx, shard, 1000)
		if err != nil {
			return err
		}
		require.Equal(t, []store.Slab{slab}, slabs)
		return nil
	})
	lose("drop hint", func() error { return s.DropHint(ctx, shard, slab, "k", 10) })
	lose("drop slab", func() error { return s.DropSlab(ctx, shard, slab, 20) })
	slabs, err := s.Slabs(ctx, shard, 1000)
	require.NoError(t, err)
	require.Empty(t, slabs)
}

// With another connection at hand, a lost answer is not even an error.
func TestLostAnswerIsAskedAgain(t *testing.T) {
	l := newLine()
	s := connect(t, Options{dialer: l})
	key := store.Key{Group: "g", Topic: "t", Key: name(t)}
	l.mark.Store(&key.Key)
	require.Eventually(t, func() bool {
		_, err := s.Root(t.Context(), key)
		return err == nil && l.marked() >= 2
	}, 2*time.Minute, 10*time.Millisecond, "two connections that carry requests")
	l.swallow.Store(1)
	_, err := s.Root(t.Context(), key)
	require.NoError(t, err)
	require.LessOrEqual(t, l.swallow.Load(), int64(0))
}

// All answers are lost: an error that says try again, and trying again changes nothing.
func TestNoAnswerAtAll(t *testing.T) {
	l := newLine()
	s := connect(t, Options{dialer: l})
	key := store.Key{Group: "g", Topic: "t", Key: name(t)}
	first := store.Batch{Stamp: 10, Root: []byte("1"), Puts: []store.Put{put("a", "1")}}
	eventually(t, func() error { return s.Apply(t.Context(), key, first) })
	second := store.Batch{Stamp: 12, Root: []byte("2"), Puts: []store.Put{put("b", "2")}, Deletes: []store.Slot{slot("a")}}
	l.swallow.Store(1000)
	err := s.Apply(t.Context(), key, second)
	require.Error(t, err)
	require.Equal(t, fault.Store, fault.Of(err))
	l.swallow.Store(0)
	eventually(t, func() error { return s.Apply(t.Context(), key, second) })
	rows, _, err := storetest.Patient(s).Scan(t.Context(), key, store.Range{Kind: store.Cell}, false, 10)
	require.NoError(t, err)
	require.Equal(t, []store.Row{put("b", "2").Row}, rows)
}

// eventually repeats what fails as a store may, and tells how long it took.
func eventually(t *testing.T, call func() error) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		err := call()
		if err == nil {
			return time.Since(began)
		}
		require.Equal(t, fault.Store, fault.Of(err), "%v", err)
		require.Less(t, time.Since(began), 3*time.Minute, "%v", err)
		time.Sleep(50 * time.Millisecond)
	}
}

// A connection that breaks between two pages is no end of the rows.
func TestLostPages(t *testing.T) {
	const count = 12001
	l := newLine()
	s := connect(t, Options{dialer: l})
	ctx := t.Context()
	key := store.Key{Group: "g", Topic: "t", Key: name(t)}
	busy := storetest.Patient(s)
	storetest.Fill(t, busy, key, count)
	shard, slab := store.Shard{Group: "g", Topic: key.Key}, store.Slab{Start: 600, Size: 600}
	var group sync.WaitGroup
	for worker := range 32 {
		group.Go(func() {
			for i := worker; i < count; i += 32 {
				if err := busy.AddHint(ctx, shard, slab, fmt.Sprint(i), 10, 0); err != nil {
					t.Error(err)
				}
				if err := busy.AddHint(ctx, shard, store.Slab{Start: int64(i), Size: 1}, "k", 10, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	reads := map[string]func() (int, error){
		"rows": func() (int, error) {
			rows, more, err := s.Scan(ctx, key, store.Range{Kind: store.Cell, Name: "n"}, false, 20000)
			require.False(t, more)
			return len(rows), err
		},
		"hints": func() (int, error) {
			keys, err := s.Hints(ctx, shard, slab, "", 20000)
			return len(keys), err
		},
		"slabs": func() (int, error) {
			slabs, err := s.Slabs(ctx, shard, 1<<40)
			return len(slabs) - 1, err
		},
	}
	for kind, read := range reads {
		var found int
		eventually(t, func() (err error) { found, err = read(); return err })
		require.Equal(t, count, found, kind)
		for _, bytes := range []int64{1, 20000, 150000} {
			l.left.Store(bytes)
			found, err := read()
			if err == nil {
				require.Equal(t, count, found, "%s: a short list after %d bytes", kind, bytes)
			} else {
				require.Equal(t, fault.Store, fault.Of(err))
				require.LessOrEqual(t, found, 0)
			}
			require.True(t, err != nil || bytes > 20000, "%s: nothing broke", kind)
			l.left.Store(0)
			l.up()
			eventually(t, func() error { _, err := s.Root(ctx, key); return err })
		}
	}
}

// Cassandra goes away under load and comes back: no restart, nothing lost.
func TestRecovery(t *testing.T) {
	for kind, outage := range map[string]func(l *line, noticed func()){
		"restart": func(l *line, noticed func()) {
			l.cut(always)
			time.Sleep(8 * time.Second)
			noticed()
			l.up()
		},
		"silence": func(l *line, noticed func()) {
			l.silent.Store(true)
			time.Sleep(15 * time.Second)
			noticed()
			l.silent.Store(false)
		},
		"another address": func(l *line, noticed func()) {
			l.cut(always)
			time.Sleep(3 * time.Second)
			noticed()
			l.cut(host("127.0.0.2"))
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newLine()
			l.down = host("127.0.0.3")
			s := connect(t, Options{Nodes: []string{"127.0.0.2:9042", "127.0.0.3:9042"}, dialer: l})
			key := store.Key{Group: "g", Topic: "t", Key: name(t)}
			var over atomic.Bool
			var group sync.WaitGroup
			var failures, done atomic.Int64
			for worker := range 8 {
				group.Go(func() {
					for i := int64(0); !over.Load(); i++ {
						row := put(fmt.Sprintf("%d-%d", worker, i), "1")
						for stamp := 10 + 2*i; ; {
							err := s.Apply(context.Background(), key, store.Batch{Stamp: stamp, Puts: []store.Put{row}})
							if err == nil {
								break
							}
							failures.Add(1)
							if fault.Of(err) != fault.Store {
								t.Error(err)
							}
							time.Sleep(20 * time.Millisecond)
						}
						done.Add(1)
						time.Sleep(5 * time.Millisecond)
					}
				})
			}
			await := func(what string, condition func() bool) {
				require.Eventually(t, condition, 3*time.Minute, 20*time.Millisecond, what)
			}
			await("work", func() bool { return done.Load() > 50 })
			outage(l, func() { await("the outage is noticed", func() bool { return failures.Load() > 0 }) })
			took := eventually(t, func() error { _, err := s.Root(t.Context(), key); return err })
			t.Logf("answers again %v after the outage; %d failures, %d writes", took, failures.Load(), done.Load())
			require.Less(t, took, time.Minute)
			before := done.Load()
			await("it goes on", func() bool { return done.Load() > before+50 })
			over.Store(true)
			group.Wait()
			found, more, err := storetest.Patient(s).Scan(t.Context(), key, store.Range{Kind: store.Cell}, false, 100000)
			require.NoError(t, err)
			require.False(t, more)
			require.Len(t, found, int(done.Load()))
		})
	}
}

// One call that is cancelled while its statement is prepared leaves the others alone.
func TestCancelIsAlone(t *testing.T) {
	l := newLine()
	s := connect(t, Options{dialer: l})
	key := store.Key{Group: "g", Topic: "t", Key: name(t)}
	for kind, call := range map[string]func(context.Context) error{
		"query": func(ctx context.Context) error { _, err := s.Root(ctx, key); return err },
		"batch": func(ctx context.Context) error {
			return s.Apply(ctx, key, store.Batch{Stamp: 10, Root: []byte("r"), Puts: []store.Put{put("a", "1")}})
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error)
		l.silent.Store(true)
		before := l.requests.Load()
		go func() { first <- call(ctx) }()
		require.Eventually(t, func() bool { return l.requests.Load() > before }, time.Minute, time.Millisecond)
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				// A slow cluster may refuse one; that is not what the first one does to them.
				if err := call(t.Context()); errors.Is(err, context.Canceled) || err != nil && fault.Of(err) != fault.Store {
					t.Errorf("%s: %v", kind, err)
				}
			})
		}
		time.Sleep(10 * time.Millisecond) // so that they wait for the same statement
		cancel()
		require.ErrorIs(t, <-first, context.Canceled)
		l.silent.Store(false)
		group.Wait()
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	l := newLine()
	s := connect(t, Options{dialer: l})
	require.NoError(t, s.Close())
	_, err := s.Root(t.Context(), store.Key{})
	require.Error(t, err)
	leak := goleak.Find(before)
	for end := time.Now().Add(time.Minute); leak != nil && time.Now().Before(end); {
		leak = goleak.Find(before)
	}
	require.NoError(t, leak)
}

func TestErrorsTellNoPassword(t *testing.T) {
	const secret = "s3cret-word"
	l := newLine()
	l.down = always
	_, err := Open(t.Context(), Options{Nodes: []string{"127.0.0.2:9042"}, Keyspace: shared, User: "user", Password: secret, dialer: l})
	require.Error(t, err)
	require.Equal(t, fault.Store, fault.Of(err))
	require.NotContains(t, err.Error(), secret)
}

// What this process remembers of a slab ends with the slab: then another may drop it.
func TestSlabDroppedByAnother(t *testing.T) {
	one, other := storetest.Patient(connect(t, Options{})), storetest.Patient(connect(t, Options{}))
	shard, slab := store.Shard{Group: "g", Topic: name(t)}, store.Slab{Start: 6000, Size: 600}
	const end = 6600 * int64(1e6)
	require.NoError(t, one.AddHint(t.Context(), shard, slab, "a", end-2*skew.Microseconds(), time.Hour))
	require.NoError(t, other.DropSlab(t.Context(), shard, slab, end))
	require.NoError(t, one.AddHint(t.Context(), shard, slab, "b", end+1, time.Hour))
	slabs, err := other.Slabs(t.Context(), shard, 1<<40)
	require.NoError(t, err)
	require.Equal(t, []store.Slab{slab}, slabs)
	keys, err := other.Hints(t.Context(), shard, slab, "", 10)
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, keys)
}
