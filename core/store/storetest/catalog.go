package storetest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/fault"
	"prosody/core/store"
)

// Catalog checks the contract of a store.Catalog.
func Catalog(t *testing.T, c store.Catalog) {
	unique := time.Now().Format("150405.000000000")
	group, subsystem := "group-"+unique, "subsystem-"+unique
	t.Run("the first identity stays", func(t *testing.T) {
		recorded, err := c.Identify(t.Context(), group, "a", "value json")
		require.NoError(t, err)
		assert.Equal(t, "value json", recorded)
		recorded, err = c.Identify(t.Context(), group, "a", "map json")
		require.NoError(t, err)
		assert.Equal(t, "value json", recorded)
		recorded, err = c.Identify(t.Context(), group+"x", "a", "map json")
		require.NoError(t, err)
		assert.Equal(t, "map json", recorded)
	})
	t.Run("of several at once one wins", func(t *testing.T) {
		var all sync.WaitGroup
		recorded := make([]string, 6)
		for i := range recorded {
			all.Go(func() {
				var err error
				recorded[i], err = c.Identify(t.Context(), group, "b", string(rune('a'+i)))
				assert.NoError(t, err)
			})
		}
		all.Wait()
		for _, one := range recorded {
			assert.Equal(t, recorded[0], one)
		}
	})
	t.Run("publications", func(t *testing.T) {
		p := store.Publication{Subsystem: subsystem, Name: "n", Group: group, Topic: "b", Identity: "value json"}
		other, replaced, foreign := p, p, p
		other.Topic = "a"
		replaced.Identity = "map json"
		foreign.Group = group + "x"
		for _, one := range []store.Publication{p, other, replaced, foreign} {
			require.NoError(t, c.Publish(t.Context(), one))
		}
		list, err := c.Publications(t.Context(), subsystem, "n")
		require.NoError(t, err)
		assert.Equal(t, []store.Publication{other, replaced, foreign}, list)
		require.NoError(t, c.Retire(t.Context(), subsystem, "n", group))
		list, err = c.Publications(t.Context(), subsystem, "n")
		require.NoError(t, err)
		assert.Equal(t, []store.Publication{foreign}, list)
		list, err = c.Publications(t.Context(), subsystem, "none")
		require.NoError(t, err)
		assert.Empty(t, list)
	})
	t.Run("texts", func(t *testing.T) {
		_, err := c.Identify(t.Context(), "\xff", "a", "b")
		assert.Equal(t, fault.Invalid, fault.Of(err))
		err = c.Publish(t.Context(), store.Publication{Name: strings.Repeat("x", store.MaxKey+1)})
		assert.Equal(t, fault.TooLarge, fault.Of(err))
	})
}
