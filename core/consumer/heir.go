package consumer

import (
	"prosody/core/partition"
	"prosody/core/pipeline"
)

// inherit takes over the gates of the member before, whose handlers may still run: their
// keys wait until these end, so that two handlers of a key never overlap in a process.
func (c *Consumer) inherit(before *Consumer) {
	if before == nil {
		return
	}
	before.locked(func() {
		for _, at := range before.set.Active() {
			if c.bars == nil {
				c.bars = map[partition.Gated]partition.Token{}
			}
			c.bars[at] = c.set.Bar(at)
			before.heir = c
		}
	})
}

// lift opens an inherited gate, here and in the members after this one.
func (c *Consumer) lift(at partition.Gated) {
	var starts []partition.Start
	var heir *Consumer
	c.locked(func() {
		if token, barred := c.bars[at]; barred {
			delete(c.bars, at)
			c.set.Done(token, pipeline.Aborted)
			starts = c.startable(nil)
		}
		heir = c.heir
	})
	c.dispatch(starts)
	if heir != nil {
		heir.lift(at)
	}
}

// Active tells how many handlers of this member and those before still run.
func (c *Consumer) Active() (count int) {
	c.locked(func() { count = len(c.set.Active()) })
	return count
}
