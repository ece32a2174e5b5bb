package storetest

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/fault"
	"prosody/core/store"
)

// Directory checks the contract of a store.Directory.
func Directory(t *testing.T, d store.Directory) {
	id := func() (made [16]byte) {
		_, err := rand.Read(made[:])
		require.NoError(t, err)
		return made
	}
	whole := store.Peer{ID: id(), Direct: "10.0.0.1:9099", Advertised: "http://gateway:7000/", Host: "host", Network: "net"}
	bare := store.Peer{ID: id(), Direct: "10.0.0.2:9099", Host: "host"}
	for _, one := range []store.Peer{whole, bare} {
		_, there, err := d.Locate(t.Context(), one.ID)
		require.NoError(t, err)
		assert.False(t, there)
		require.NoError(t, d.Enroll(t.Context(), one, time.Minute))
		found, there, err := d.Locate(t.Context(), one.ID)
		require.NoError(t, err)
		assert.True(t, there)
		assert.Equal(t, one, found)
	}
	bare.Direct = "10.0.0.3:9099"
	timely(func(ttl time.Duration) func() {
		require.NoError(t, d.Enroll(t.Context(), bare, ttl))
		found, _, err := d.Locate(t.Context(), bare.ID)
		require.NoError(t, err)
		return func() { assert.Equal(t, bare, found) }
	})
	require.NoError(t, d.Withdraw(t.Context(), whole.ID))
	_, there, err := d.Locate(t.Context(), whole.ID)
	require.NoError(t, err)
	assert.False(t, there)
	require.NoError(t, d.Withdraw(t.Context(), whole.ID), "twice is fine")
	assert.Eventually(t, func() bool {
		_, there, err := d.Locate(t.Context(), bare.ID)
		return err == nil && !there
	}, 5*time.Minute, 50*time.Millisecond, "a lease that is not renewed ends")
	whole.Host = strings.Repeat("x", store.MaxKey+1)
	assert.Equal(t, fault.TooLarge, fault.Of(d.Enroll(t.Context(), whole, time.Minute)))
}
