package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"prosody/core/clock"
	"prosody/core/kafka"
)

// Consumer is a member of a group.
type Consumer struct {
	broker *Broker
	group  *group
	wake   chan struct{} // holds one token when there may be news

	// Under the broker's mutex.
	wanted  *subscription // nil: not subscribed
	session clock.Timer

	mutex    sync.Mutex
	joined   bool
	outside  bool // subscribed, and joins at the next Poll
	closed   bool
	polling  bool
	told     bool      // the last Poll had something, which is not taken in yet
	seen     time.Time // the end of the last Poll
	claims   []*claim
	turn     int  // where the next Poll begins among claims
	news     bool // a claim is granted or leaving
	lost     []kafka.Partition
	problems []error
	timer    *time.Timer // Poll's own
}

var _ kafka.Consumer = (*Consumer)(nil)

func newConsumer(broker *Broker, group *group) *Consumer {
	return &Consumer{broker: broker, group: group, wake: make(chan struct{}, 1)}
}

func shut(what string) error { return fail(kafka.Closed, "the "+what+" is closed") }

func lapse(partition kafka.Partition, offset, from int64) error {
	return fail(kafka.Unknown, fmt.Sprintf("offset %d of %s:%d is not in the log; reading goes on from %d",
		offset, partition.Topic, partition.Index, from))
}

// Subscribe says what the member wants. The next Poll joins the group. Topics that are
// named and absent are made.
func (c *Consumer) Subscribe(topics []string) error {
	wanted, err := subscribe(topics)
	if err != nil {
		return err
	}
	c.broker.mutex.Lock()
	defer c.broker.mutex.Unlock()
	if c.isClosed() {
		return shut("consumer")
	}
	for name := range wanted.names {
		if _, err := c.broker.imply(name, true); err != nil {
			return err
		}
	}
	c.wanted = wanted
	if slices.Contains(c.group.members, c) {
		c.group.balance()
		return nil
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.outside = true
	return nil
}

// join enters the group; under the broker's mutex.
func (c *Consumer) join() {
	c.mutex.Lock()
	c.joined, c.outside, c.seen = true, false, c.broker.settings.Clock.Now()
	c.mutex.Unlock()
	c.watch(c.broker.settings.Session)
	c.group.join(c)
}

// watch looks at the session again after a while; under the broker's mutex.
func (c *Consumer) watch(after time.Duration) {
	var timer clock.Timer
	timer = c.broker.settings.Clock.AfterFunc(after, func() {
		c.broker.mutex.Lock()
		defer c.broker.mutex.Unlock()
		if c.session != timer {
			return
		}
		if left := c.left(); left > 0 {
			c.watch(left)
		} else {
			c.group.remove(c, true)
		}
	})
	c.session = timer
}

// left is what remains of the session.
func (c *Consumer) left() time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.polling {
		return c.broker.settings.Session
	}
	return c.broker.settings.Session - c.broker.settings.Clock.Now().Sub(c.seen)
}

// Poll waits for news or records. Records of new partitions come with the next Poll.
func (c *Consumer) Poll(wait time.Duration, limit int) kafka.Events {
	if c.begin() {
		c.enter()
	}
	defer c.end()
	events, found := c.next(limit)
	if found || wait <= 0 {
		return events
	}
	if c.timer == nil {
		c.timer = time.NewTimer(wait)
	} else {
		c.timer.Reset(wait)
	}
	defer c.timer.Stop()
	for {
		select {
		case <-c.wake:
		case <-c.timer.C:
			events, _ = c.next(limit)
			return events
		}
		if events, found = c.next(limit); found {
			return events
		}
	}
}

// begin tells whether the member is to join: if it lost something, once it was told.
func (c *Consumer) begin() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.polling, c.told = true, false
	return c.outside && len(c.lost) == 0
}

func (c *Consumer) end() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.polling = false
	c.seen = c.broker.settings.Clock.Now()
}

func (c *Consumer) enter() {
	c.broker.mutex.Lock()
	defer c.broker.mutex.Unlock()
	if !c.isClosed() && !slices.Contains(c.group.members, c) {
		c.join()
	}
}

// next is take, unless the broker is out of reach.
func (c *Consumer) next(limit int) (events kafka.Events, found bool) {
	if err := c.broker.fault("consume", c.group.name); err != nil {
		return kafka.Events{Errors: []error{err}}, true
	}
	return c.take(limit)
}

// take collects what there is to tell. A partition that is told lost or revoked is
// never in the same Events as one that is assigned.
func (c *Consumer) take(limit int) (events kafka.Events, found bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		return kafka.Events{Errors: []error{shut("consumer")}}, true
	}
	events.Lost, c.lost = c.lost, nil
	events.Records = c.records(limit)
	events.Errors, c.problems = c.problems, nil
	if c.news {
		c.tell(&events)
	}
	found = len(events.Records)+len(events.Lost)+len(events.Revoked)+len(events.Assigned)+len(events.Errors) > 0
	c.told = c.told || found
	return events, found
}

func (c *Consumer) tell(events *kafka.Events) {
	for _, claim := range c.claims {
		if claim.phase == leaving {
			claim.phase = revoked
			events.Revoked = append(events.Revoked, claim.Partition)
		}
	}
	if len(events.Revoked)+len(events.Lost) > 0 {
		return
	}
	for _, claim := range c.claims {
		if claim.phase == granted {
			claim.phase = held
			events.Assigned = append(events.Assigned, claim.Partition)
		}
	}
	c.news = false
}

// records reads up to limit records, an equal share from each partition that has some.
func (c *Consumer) records(limit int) (found []*kafka.Record) {
	var ready []*claim
	backlog := 0
	for i := range c.claims {
		claim := c.claims[(c.turn+i)%len(c.claims)]
		if behind := claim.log.end.Load() - claim.offset; claim.phase == held && !claim.paused && behind > 0 {
			ready = append(ready, claim)
			backlog += int(min(behind, int64(limit)))
		}
	}
	if len(ready) == 0 || limit <= 0 {
		return nil
	}
	c.turn++
	found = make([]*kafka.Record, 0, min(limit, backlog))
	for i, claim := range ready {
		share := (limit - len(found)) / (len(ready) - i)
		if share == 0 {
			continue
		}
		var next, from int64
		found, next, from = claim.log.read(found, claim.offset, share)
		if from > claim.offset {
			c.problems = append(c.problems, lapse(claim.Partition, claim.offset, from))
		}
		claim.offset = next
	}
	return found
}

// Pause stops delivery.
func (c *Consumer) Pause(partitions []kafka.Partition) error { return c.pause(partitions, true) }

// Resume goes on with delivery.
func (c *Consumer) Resume(partitions []kafka.Partition) error { return c.pause(partitions, false) }

func (c *Consumer) pause(partitions []kafka.Partition, paused bool) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		return shut("consumer")
	}
	for _, claim := range c.claims {
		if slices.Contains(partitions, claim.Partition) {
			claim.paused = paused
		}
	}
	poke(c.wake)
	return nil
}

// Commit writes positions of partitions that this member has, revoked ones included.
// The others are refused as Stale.
func (c *Consumer) Commit(ctx context.Context, positions []kafka.Position) error {
	if err := ended(ctx, "commit"); err != nil {
		return err
	}
	if c.isClosed() {
		return shut("consumer")
	}
	if err := c.broker.fault("commit", c.group.name); err != nil {
		return err
	}
	c.broker.mutex.Lock()
	defer c.broker.mutex.Unlock()
	if refused := c.group.commit(c, positions); len(refused) > 0 {
		return fail(kafka.Stale, fmt.Sprintf("commit refused: this member of group %s does not hold %s:%d (%d of %d partitions)",
			c.group.name, refused[0].Topic, refused[0].Index, len(refused), len(positions)))
	}
	return nil
}

// Release gives revoked partitions up; it ignores others. Of one that was lost since it
// was revoked, Poll then tells nothing more.
func (c *Consumer) Release(partitions []kafka.Partition) error {
	c.broker.mutex.Lock()
	defer c.broker.mutex.Unlock()
	if c.isClosed() {
		return shut("consumer")
	}
	c.group.release(c, partitions)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.lost = slices.DeleteFunc(c.lost, func(lost kafka.Partition) bool { return slices.Contains(partitions, lost) })
	return nil
}

// Count tells how many partitions a topic has.
func (c *Consumer) Count(name string) (int, bool) {
	c.broker.mutex.RLock()
	defer c.broker.mutex.RUnlock()
	if topic := c.broker.topics[name]; topic != nil {
		return len(topic.logs), true
	}
	return 0, false
}

// End tells the end of an assigned partition's log.
func (c *Consumer) End(partition kafka.Partition) (int64, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, claim := range c.claims {
		if claim.Partition == partition {
			return claim.log.end.Load(), true
		}
	}
	return 0, false
}

// Joined tells whether the member is in the group.
func (c *Consumer) Joined() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.joined
}

// Expel ends the member's session. It joins again at its next Poll.
func (c *Consumer) Expel() {
	c.broker.mutex.Lock()
	defer c.broker.mutex.Unlock()
	c.group.remove(c, true)
}

// Close leaves the group. A Poll that waits returns.
func (c *Consumer) Close() error {
	c.broker.mutex.Lock()
	defer c.broker.mutex.Unlock()
	c.mutex.Lock()
	c.closed = true
	c.mutex.Unlock()
	c.group.remove(c, false)
	poke(c.wake)
	return nil
}
