package memory

import (
	"fmt"
	"slices"

	"prosody/core/kafka"
)

// Appended counts the records that were ever written.
func (b *Broker) Appended() int64 { return b.appended.Load() }

// Records gives the records of a topic in the order in which they were sent, and whether
// there is such a topic.
func (b *Broker) Records(name string) ([]*kafka.Record, bool) {
	b.mutex.RLock()
	topic := b.topics[name]
	if topic == nil {
		b.mutex.RUnlock()
		return nil, false
	}
	logs := slices.Clone(topic.logs)
	b.mutex.RUnlock()
	var all []entry
	for _, log := range logs {
		log.mutex.Lock()
		all = append(all, log.records...)
		log.mutex.Unlock()
	}
	slices.SortFunc(all, func(x, y entry) int { return int(x.order - y.order) })
	records := make([]*kafka.Record, len(all))
	for i := range all {
		records[i] = all[i].Record
	}
	return records, true
}

// Busy tells what the members still have to take, or nothing: then each partition is in
// its owner's hand, and each record that was written before the call is in its program's.
func (b *Broker) Busy() string {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	for _, group := range b.groups {
		for partition := range group.target {
			if group.owners[partition] == nil {
				return fmt.Sprintf("group %s shares its partitions", group.name)
			}
		}
		for _, member := range group.members {
			if reason := member.busy(); reason != "" {
				return "group " + group.name + ": " + reason
			}
		}
	}
	return ""
}

func (c *Consumer) busy() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.news || c.outside || len(c.lost) > 0 {
		return "a member has not heard of its partitions"
	}
	if c.told {
		return "a member takes records in"
	}
	for _, claim := range c.claims {
		if claim.phase != held {
			return fmt.Sprintf("%s:%d is on its way to another member", claim.Topic, claim.Index)
		}
		if behind := claim.log.end.Load() - claim.offset; behind > 0 {
			return fmt.Sprintf("%d records wait in %s:%d", behind, claim.Topic, claim.Index)
		}
	}
	return ""
}

// Revoke takes all partitions away from the members of a group, as another member would.
// They are shared anew as each is released. False: no member has one.
func (b *Broker) Revoke(name string) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	group := b.groups[name]
	found := false
	if group != nil {
		for _, claim := range group.owners {
			if claim.owner.phase(claim) == held {
				claim.owner.keep(claim, false)
				found = true
			}
		}
	}
	return found
}
