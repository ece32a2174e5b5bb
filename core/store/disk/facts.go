package disk

import "sync/atomic"

// Facts are how full the cache is, and what was counted of it.
type Facts struct {
	Bytes   int64   `json:"bytes"`   // of all files
	Limit   int64   `json:"limit"`   // of Bytes
	Entries int64   `json:"entries"` // keys and rows that its files were given; newer ones replace older
	Keys    Lookups `json:"keys"`    // of keys that come into memory
	Rows    Lookups `json:"rows"`    // of rows and scans
	Faults  int64   `json:"faults"`  // each has emptied the cache
}

// Lookups are the questions that the cache could answer, and those that went on to the store.
type Lookups struct {
	Hits   int64 `json:"hits"`
	Misses int64 `json:"misses"`
}

// asked counts lookups.
type asked struct{ hits, misses atomic.Int64 }

func (a *asked) note(hits, misses int) {
	a.hits.Add(int64(hits))
	a.misses.Add(int64(misses))
}

func (a *asked) snapshot() Lookups { return Lookups{a.hits.Load(), a.misses.Load()} }

// Snapshot reads the state; nil of no cache.
func (c *Cache) Snapshot() *Facts {
	if c == nil {
		return nil
	}
	facts := &Facts{
		Bytes: c.bytes.Load(), Limit: c.options.Bytes,
		Keys: c.keys.snapshot(), Rows: c.rows.snapshot(), Faults: c.faults.Load(),
	}
	for _, g := range c.all() {
		facts.Entries += g.entries.Load()
	}
	return facts
}
