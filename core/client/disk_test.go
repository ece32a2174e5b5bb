package client

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/fault"
	"prosody/core/pipeline"
	"prosody/core/producer"
	"prosody/core/state"
	"prosody/core/store"
	"prosody/core/store/memory"
)

// work sends each key a message, and waits until all are handled.
func work(t *testing.T, client *Client, keys int, done *atomic.Int64) {
	want := done.Load() + int64(keys)
	for n := range keys {
		record := producer.Outgoing{Topic: "orders", Key: fmt.Sprint("key-", n), Payload: []byte(`{"n":1}`)}
		require.NoError(t, client.Send(record, func(sent producer.Sent) { assert.Nil(t, sent.Err) }))
	}
	require.Eventually(t, func() bool { return done.Load() == want }, 5*time.Minute, 5*time.Millisecond)
}

// adds appends to a list of each key, and counts those that are as long as they have to be.
func adds(done *atomic.Int64, length func() int64) Host {
	return pipeline.Func(func(ctx context.Context, i *pipeline.Invocation) pipeline.Outcome {
		handle, err := i.State.Bind(state.Identity{Name: "list", Kind: "deque", Payload: "json"})
		if err == nil {
			list := handle.(*state.Deque)
			var size int64
			if size, err = list.Size(ctx); err == nil && size == length() {
				err = list.Append(ctx, state.Item{JSON: []byte(`"` + strings.Repeat("x", 2000) + `"`)})
				done.Add(1)
			}
		}
		if err != nil {
			return pipeline.Outcome{Class: pipeline.Permanent, Text: err.Error()}
		}
		return pipeline.Outcome{Class: pipeline.Success}
	})
}

// With little memory owned keys come from the disk, each client has a directory of its own
// there, and nothing is left of it.
func TestOwnedStateIsOnDisk(t *testing.T) {
	const keys = 400
	dir := filepath.Join(t.TempDir(), "cache")
	var reads atomic.Int64
	on := memory.NewRegistry(memory.Settings{})
	stored := on.Store(t.Name())
	stored.Fail(func(op string, key store.Key) error {
		if strings.HasPrefix(key.Key, "key-") && (op == "Root" || op == "Get" || op == "Scan") {
			reads.Add(1)
		}
		return nil
	})
	options := map[string]string{
		"state_collections": `[{"name":"list","kind":"deque","payload":"json"}]`, "state_cache_dir": dir,
		"state_owned_cache_size": "64 KiB", "state_memtable_size": "1 MiB", "state_disk_cache_size": "64 MiB",
	}
	client, err := New(plan(t, options), Deps{Memory: registry, Stores: on, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	var done, length atomic.Int64
	require.NoError(t, client.Subscribe(t.Context(), adds(&done, length.Load)))
	options["group_id"] = "another"
	second, err := New(plan(t, options), Deps{Memory: registry, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, second.Subscribe(t.Context(), adds(&atomic.Int64{}, length.Load)))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 2)
	for round := range int64(4) {
		length.Store(round)
		work(t, client, keys, &done)
		if round == 0 {
			assert.LessOrEqual(t, reads.Swap(0), int64(2*keys))
		}
	}
	assert.Zero(t, reads.Load(), "what was loaded is not read again")
	facts := client.current().keep.Keeper.Snapshot()
	assert.Less(t, facts.Loaded, keys/2)
	assert.Greater(t, facts.Recalls, int64(keys))
	assert.Greater(t, facts.Disk.Bytes, int64(keys*100))
	assert.Equal(t, facts.Recalls, facts.Disk.Keys.Hits)
	assert.Greater(t, facts.Disk.Entries, int64(keys))
	assert.Equal(t, int64(64<<20), facts.Disk.Limit)
	assert.Zero(t, facts.Disk.Faults)
	require.NoError(t, client.Unsubscribe(t.Context()))
	entries, err = os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	require.NoError(t, client.Shutdown(context.Background()))
	require.NoError(t, second.Shutdown(context.Background()))
	entries, err = os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

// A directory that was asked for has to work; the one that is the default need not.
func TestADirectoryThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	client := open(t, map[string]string{"state_cache_dir": filepath.Join(file, "cache")})
	err := client.Subscribe(t.Context(), pipeline.Func(nil))
	require.Error(t, err)
	assert.Equal(t, fault.Config, fault.Of(err))
	for _, part := range []string{"failed to initialize consumer", "state_cache_dir", file, "must be a directory that this process may write"} {
		assert.Contains(t, err.Error(), part)
	}
	t.Setenv("TMPDIR", file)
	var said bytes.Buffer
	client, err = New(plan(t, nil), Deps{Memory: registry, Log: slog.New(slog.NewTextHandler(&said, nil))})
	require.NoError(t, err)
	require.NoError(t, client.Subscribe(t.Context(), pipeline.Func(nil)))
	require.NoError(t, client.Shutdown(context.Background()))
	assert.Equal(t, 1, strings.Count(said.String(), "state_cache_dir"), said.String())
}
