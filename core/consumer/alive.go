package consumer

import (
	"log/slog"
	"strconv"
	"time"

	"prosody/core/partition"
)

// A process that stood still, or a machine that slept, may have missed the end of its
// session: others own its partitions then, and what it knows of their keys is old. The
// poll loop is never silent for long, so its silence tells. After one nothing is written
// or started until the group has said what holds, or had time to do so.

// Alive tells whether the session cannot have ended unnoticed.
func (c *Consumer) Alive() bool {
	return time.Since(time.Unix(0, c.polled.Load())) < c.silence
}

// woke notes that Poll came back.
func (c *Consumer) woke(now time.Time) {
	if silent := now.Sub(time.Unix(0, c.polled.Load())); silent >= c.silence {
		// The next heartbeat is sent at once; its answer tells.
		wait := millis(c.options.Properties, "heartbeat.interval.ms", 3*time.Second) + 2*time.Second
		c.log.Warn("the process stood still: waiting until its group has answered",
			slog.Duration("silent", silent), slog.Duration("wait", wait))
		c.locked(func() {
			if c.held.IsZero() || !c.doubt.IsZero() {
				c.hold(true)
				c.doubt = now.Add(wait)
			}
		})
	}
	c.polled.Store(now.UnixNano())
}

// trust ends a hold for which the group has given no reason.
func (c *Consumer) trust() {
	var starts []partition.Start
	c.locked(func() {
		if !c.doubt.IsZero() && time.Now().After(c.doubt) {
			c.hold(false)
			starts = c.startable(nil)
		}
	})
	c.dispatch(starts)
}

// millis reads a property of the client library.
func millis(properties map[string]string, name string, otherwise time.Duration) time.Duration {
	if value, err := strconv.Atoi(properties[name]); err == nil && value > 0 {
		return time.Duration(value) * time.Millisecond
	}
	return otherwise
}
