package memory

import (
	"context"
	"slices"

	"prosody/core/kafka"
)

// The calls of this file come from the group, under the broker's mutex.

func (c *Consumer) add(claim *claim) {
	c.mutex.Lock()
	c.claims = append(c.claims, claim)
	c.news = true
	c.mutex.Unlock()
	claim.log.watch(c.wake)
	poke(c.wake)
}

// drop forgets a claim. The member hears of a loss only if it was told of the claim.
func (c *Consumer) drop(claim *claim, tell bool) {
	claim.log.unwatch(c.wake)
	c.mutex.Lock()
	c.forget(claim)
	if tell && claim.phase != granted {
		c.lost = append(c.lost, claim.Partition)
	}
	c.mutex.Unlock()
	poke(c.wake)
}

// keep follows the plan for a claim: the member is to keep it, or to give it up. True:
// it is free at once, since the member never heard of it.
func (c *Consumer) keep(claim *claim, stay bool) (free bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch {
	case stay && claim.phase == leaving:
		claim.phase = held
	case !stay && claim.phase == held:
		claim.phase = leaving
		c.news = true
		poke(c.wake)
	case !stay && claim.phase == granted:
		claim.log.unwatch(c.wake)
		c.forget(claim)
		return true
	}
	return false
}

// forget is under the member's mutex.
func (c *Consumer) forget(claim *claim) {
	if at := slices.Index(c.claims, claim); at >= 0 {
		c.claims = slices.Delete(c.claims, at, at+1)
	}
}

func (c *Consumer) expel(tell bool) {
	if c.session != nil {
		c.session.Stop()
		c.session = nil
	}
	c.mutex.Lock()
	c.joined, c.outside = false, tell
	c.mutex.Unlock()
	poke(c.wake)
}

func (c *Consumer) report(problem error) {
	c.mutex.Lock()
	c.problems = append(c.problems, problem)
	c.mutex.Unlock()
	poke(c.wake)
}

func (c *Consumer) phase(claim *claim) phase {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return claim.phase
}

func (c *Consumer) isClosed() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.closed
}

func ended(ctx context.Context, what string) error {
	if err := ctx.Err(); err != nil {
		return fail(kafka.TimedOut, what+": "+err.Error())
	}
	return nil
}
