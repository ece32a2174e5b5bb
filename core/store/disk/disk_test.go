package disk_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/clock"
	"prosody/core/store"
	"prosody/core/store/disk"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("DISK_TEST_VICTIM"); dir != "" {
		victim(dir)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(disk.Afterglow))
}

func open(t *testing.T, options disk.Options) *disk.Cache {
	c, err := disk.Open(options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func put(name, coordinate, data string) store.Put {
	return store.Put{Row: store.Row{Slot: slot(name, coordinate), Data: []byte(data)}}
}

func slot(name, coordinate string) store.Slot {
	return store.Slot{Kind: store.Cell, Name: name, Coordinate: coordinate}
}

func apply(t *testing.T, m *disk.Mirror, batch store.Batch) {
	require.NoError(t, m.Apply(batch, func() error { return nil }))
}

// kept are the rows of a collection that are known without the store.
func kept(t *testing.T, m *disk.Mirror, name string) (text string, known bool) {
	known = true
	rows, _, err := m.Scan(t.Context(), store.Range{Kind: store.Cell, Name: name}, false, 1000,
		func(context.Context) ([]store.Row, bool, error) {
			known = false
			return nil, false, errors.New("asked")
		})
	if known {
		require.NoError(t, err)
	}
	for _, row := range rows {
		text += row.Coordinate + "=" + string(row.Data) + " "
	}
	return text, known
}

func entries(t *testing.T, dir string) (names []string) {
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, one := range list {
		names = append(names, one.Name())
	}
	return names
}

func TestNotesAreKept(t *testing.T) {
	c := open(t, disk.Options{Dir: t.TempDir()})
	note, _ := c.Load("k")
	assert.Nil(t, note)
	m := c.Mirror([]string{"old"})
	apply(t, m, store.Batch{Puts: []store.Put{put("new", "a", "1"), put("new", "b", "")}})
	assert.True(t, c.Save("k", []byte("first"), m))
	assert.True(t, c.Save("k", []byte("second"), m))
	note, again := c.Load("k")
	assert.Equal(t, "second", string(note))
	text, known := kept(t, again, "new")
	assert.Equal(t, "a=1 b= ", text)
	assert.True(t, known)
	_, known = kept(t, again, "old")
	assert.False(t, known)
	c.Remove("k")
	note, _ = c.Load("k")
	assert.Nil(t, note)
	require.NoError(t, c.Close())
	assert.False(t, c.Save("k", []byte("third"), nil))
	note, _ = c.Load("k")
	assert.Nil(t, note)
	_, known = kept(t, again, "new")
	assert.False(t, known)
	var none *disk.Cache
	assert.False(t, none.Save("k", nil, none.Mirror(nil)))
}

// Old entries make room, those of one key at once, and files never exceed the bound by much.
func TestBytesAreBounded(t *testing.T) {
	const most = 4 << 20
	dir := t.TempDir()
	c := open(t, disk.Options{Dir: dir, Bytes: most, Memory: 1 << 20})
	text := make([]byte, 2000)
	mirrors := map[int]*disk.Mirror{}
	for n := range 20_000 {
		for i := range text {
			text[i] = byte(n*i*i + i>>3)
		}
		m := c.Mirror(nil)
		mirrors[n] = m
		apply(t, m, store.Batch{Puts: []store.Put{put("map", "a", string(text)), put("map", "b", "")}})
		require.True(t, c.Save(fmt.Sprint(n), []byte("note"), m))
		if n%500 == 0 {
			size := int64(0)
			for _, entry := range entries(t, c.Home()) {
				for _, file := range entries2(c.Home(), entry) {
					size += file
				}
			}
			assert.LessOrEqual(t, size, int64(most+most/2))
			assert.LessOrEqual(t, c.Snapshot().Bytes, int64(most+most/2))
		}
	}
	assert.LessOrEqual(t, c.Generations(), 6)
	note, _ := c.Load("19999")
	assert.NotNil(t, note)
	note, _ = c.Load("1")
	assert.Nil(t, note)
	_, known := kept(t, mirrors[1], "map")
	assert.False(t, known, "a mirror whose rows are gone knows nothing")
	rows, known := kept(t, mirrors[19_999], "map")
	assert.True(t, known)
	assert.Len(t, rows, 2000+6)
}

// The newest note of a key counts, wherever the others are.
func TestTheNewestNoteCounts(t *testing.T) {
	c := open(t, disk.Options{Dir: t.TempDir(), Bytes: 4 << 20, Memory: 1 << 20})
	text := make([]byte, 2000)
	_, _ = rand.Read(text)
	for n := 0; c.Generations() < 3; n++ {
		require.True(t, c.Save("again", fmt.Append(nil, n), nil))
		require.True(t, c.Save(fmt.Sprint("filler", n), text, nil))
		note, _ := c.Load("again")
		require.Equal(t, fmt.Append(nil, n), note)
		if n%100 == 0 {
			c.Remove("again")
			note, _ = c.Load("again")
			require.Nil(t, note)
		}
	}
}

func entries2(dir, name string) (sizes []int64) {
	list, _ := os.ReadDir(filepath.Join(dir, name))
	for _, one := range list {
		if info, err := one.Info(); err == nil {
			sizes = append(sizes, info.Size())
		}
	}
	return sizes
}

// A fault makes all void. It is said once, and after a while the cache begins anew.
func TestFaults(t *testing.T) {
	for _, op := range []string{"write", "create"} {
		t.Run(op, func(t *testing.T) {
			var full atomic.Bool
			var said bytes.Buffer
			manual := clock.NewManual(time.Unix(1_700_000_000, 0))
			options := disk.Options{Dir: t.TempDir(), Memory: 1 << 20, Clock: manual, Log: slog.New(slog.NewTextHandler(&said, nil))}
			options.Break(func(what string) error {
				if full.Load() && what == op {
					return syscall.ENOSPC
				}
				return nil
			})
			c := open(t, options)
			m := c.Mirror(nil)
			apply(t, m, store.Batch{Puts: []store.Put{put("map", "a", "1")}})
			require.True(t, c.Save("k", []byte("old"), m))
			full.Store(true)
			for n := 0; c.Save(fmt.Sprint(n), make([]byte, 10_000), nil); n++ {
				require.Less(t, n, 10_000, "the fault must show")
			}
			note, _ := c.Load("k")
			assert.Nil(t, note, "an old note must not come back")
			_, known := kept(t, m, "map")
			assert.False(t, known)
			for range 5 {
				manual.Advance(61 * time.Second)
				assert.False(t, c.Save("k", []byte("new"), nil))
			}
			assert.Equal(t, 1, strings.Count(said.String(), "state_cache_dir"), said.String())
			assert.Contains(t, said.String(), "no space left")
			full.Store(false)
			assert.False(t, c.Save("k", []byte("new"), nil), "it stays away for a while")
			manual.Advance(61 * time.Second)
			assert.True(t, c.Save("k", []byte("new"), nil))
			note, _ = c.Load("k")
			assert.Equal(t, "new", string(note))
			note, _ = c.Load("0")
			assert.Nil(t, note)
		})
	}
}

// Damaged files give no entries, and never wrong ones.
func TestDamage(t *testing.T) {
	var said bytes.Buffer
	c := open(t, disk.Options{Dir: t.TempDir(), Memory: 1 << 20, Log: slog.New(slog.NewTextHandler(&said, nil))})
	value := func(n int) []byte { return []byte(strings.Repeat(fmt.Sprintf("%08d", n), 40)) }
	const keys = 5000
	for n := range keys {
		require.True(t, c.Save(fmt.Sprint(n), value(n), nil))
	}
	damaged := 0
	require.NoError(t, filepath.Walk(c.Home(), func(path string, info os.FileInfo, err error) error {
		if err == nil && strings.HasSuffix(path, ".ldb") {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			for i := range content {
				if i%97 == 0 {
					content[i] ^= 0x55
				}
			}
			require.NoError(t, os.WriteFile(path, content, 0o600))
			damaged++
		}
		return nil
	}))
	require.Positive(t, damaged)
	missing := 0
	for n := range keys {
		note, _ := c.Load(fmt.Sprint(n))
		if note == nil {
			missing++
		} else {
			require.Equal(t, value(n), note)
		}
	}
	assert.Equal(t, keys, missing, "all goes at the first fault")
	assert.Equal(t, 1, strings.Count(said.String(), "state_cache_dir"), said.String())
}

// The directory is removed while the cache works: it goes on elsewhere, or as none.
func TestTheDirectoryVanishes(t *testing.T) {
	manual := clock.NewManual(time.Unix(1_700_000_000, 0))
	dir := filepath.Join(t.TempDir(), "a", "b")
	c := open(t, disk.Options{Dir: dir, Memory: 1 << 20, Clock: manual})
	require.True(t, c.Save("k", []byte("v"), nil))
	require.NoError(t, os.RemoveAll(filepath.Dir(dir)))
	for n := 0; c.Save(fmt.Sprint(n), make([]byte, 10_000), nil); n++ {
		require.Less(t, n, 10_000)
	}
	note, _ := c.Load("k")
	assert.Nil(t, note)
	manual.Advance(61 * time.Second)
	assert.True(t, c.Save("k", []byte("w"), nil))
	note, _ = c.Load("k")
	assert.Equal(t, "w", string(note))
}

func TestADirectoryThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := disk.Open(disk.Options{Dir: file})
	assert.Error(t, err)
}

// Clients with one directory do not meet, and each removes what is its own.
func TestClientsShareADirectory(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 5 {
				c, err := disk.Open(disk.Options{Dir: dir, Memory: 1 << 20})
				if !assert.NoError(t, err) {
					return
				}
				for i := range 200 {
					assert.True(t, c.Save(fmt.Sprint(i), fmt.Append(nil, n, i), nil))
				}
				for i := range 200 {
					note, _ := c.Load(fmt.Sprint(i))
					assert.Equal(t, fmt.Append(nil, n, i), note)
				}
				assert.NoError(t, c.Close())
			}
		})
	}
	all.Wait()
	assert.Empty(t, entries(t, dir))
}

func victim(dir string) {
	c, err := disk.Open(disk.Options{Dir: dir})
	if err != nil || !c.Save("k", []byte("v"), nil) {
		os.Exit(2)
	}
	fmt.Println("ready")
	select {}
}

// What a killed process has left is removed and not read; what a living one has stays.
func TestLeftoversOfTheKilled(t *testing.T) {
	dir := t.TempDir()
	start := func() *exec.Cmd {
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), "DISK_TEST_VICTIM="+dir)
		out, err := command.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, command.Start())
		line := make([]byte, 6)
		_, err = out.Read(line)
		require.NoError(t, err)
		require.Equal(t, "ready\n", string(line))
		return command
	}
	killed, living := start(), start()
	require.NoError(t, killed.Process.Kill())
	_ = killed.Wait()
	require.Len(t, entries(t, dir), 2)
	c := open(t, disk.Options{Dir: dir})
	assert.Len(t, entries(t, dir), 2, "one is gone, one has come")
	note, _ := c.Load("k")
	assert.Nil(t, note)
	require.NoError(t, living.Process.Kill())
	_ = living.Wait()
	open(t, disk.Options{Dir: dir})
	assert.Len(t, entries(t, dir), 2)
}

// Memory says how much is written before it goes to tables.
func TestMemoryForWrites(t *testing.T) {
	tables := func(memory int64) (count int) {
		c := open(t, disk.Options{Dir: t.TempDir(), Memory: memory})
		text := make([]byte, 1000)
		for n := range 2000 {
			_, _ = rand.Read(text)
			require.True(t, c.Save(fmt.Sprint(n), text, nil))
		}
		files, err := filepath.Glob(filepath.Join(c.Home(), "*", "*.ldb"))
		require.NoError(t, err)
		return len(files)
	}
	assert.Positive(t, tables(1<<20))
	assert.Zero(t, tables(64<<20))
}
