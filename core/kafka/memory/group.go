package memory

import (
	"slices"
	"strings"

	"prosody/core/kafka"
)

// phase says how far a claim has come.
type phase uint8

const (
	granted phase = iota // given, and not told yet
	held                 // told: it delivers
	leaving              // to be taken away, and not told yet
	revoked              // told: it waits for Release
)

// claim is a partition in a member's hand. phase, offset and paused are guarded by
// the member's mutex; phase changes to granted, leaving or back to held only under
// the broker's mutex too.
type claim struct {
	kafka.Partition
	log    *log
	owner  *Consumer
	phase  phase
	offset int64 // of the next record to deliver
	paused bool
}

// group is guarded by the broker's mutex.
type group struct {
	name    string
	broker  *Broker
	members []*Consumer // in order of joining
	offsets map[kafka.Partition]int64
	owners  map[kafka.Partition]*claim
	target  map[kafka.Partition]*Consumer
}

func (g *group) join(member *Consumer) {
	g.members = append(g.members, member)
	g.balance()
}

// remove takes a member out. What it held is lost to it, which it hears of unless
// it closes.
func (g *group) remove(member *Consumer, tell bool) {
	at := slices.Index(g.members, member)
	if at < 0 {
		return
	}
	g.members = slices.Delete(g.members, at, at+1)
	member.expel(tell)
	for partition, claim := range g.owners {
		if claim.owner == member {
			delete(g.owners, partition)
			member.drop(claim, tell)
		}
	}
	g.balance()
}

// forget removes a topic that was deleted.
func (g *group) forget(gone *topic) {
	for _, log := range gone.logs {
		partition := log.partition()
		delete(g.offsets, partition)
		delete(g.target, partition)
		if claim := g.owners[partition]; claim != nil {
			delete(g.owners, partition)
			claim.owner.drop(claim, true)
		}
	}
	for _, member := range g.members {
		if member.wanted.names[gone.name] && !gone.blank() {
			member.report(fail(kafka.UnknownTopic, "topic "+gone.name+" was deleted"))
		}
	}
}

// release takes back what a member was told to give up.
func (g *group) release(member *Consumer, partitions []kafka.Partition) {
	for _, partition := range partitions {
		claim := g.owners[partition]
		if claim != nil && claim.owner == member && member.phase(claim) == revoked {
			delete(g.owners, partition)
			member.drop(claim, false)
		}
	}
	g.balance()
}

// commit writes the positions of partitions that the member has been told of, and
// returns the others.
func (g *group) commit(member *Consumer, positions []kafka.Position) (refused []kafka.Partition) {
	for _, position := range positions {
		claim := g.owners[position.Partition]
		if claim == nil || claim.owner != member || member.phase(claim) == granted {
			refused = append(refused, position.Partition)
			continue
		}
		g.offsets[claim.Partition] = position.Offset
	}
	return refused
}

// balance computes who is to have what, takes away what is to move and gives what is
// free. A partition that its owner was told of is free only after Release.
func (g *group) balance() {
	partitions := g.wanted()
	g.target = assign(g.members, partitions, func(member *Consumer, topic string) bool {
		return member.wanted.matches(topic)
	}, g.prior())
	for partition, claim := range g.owners {
		if claim.owner.keep(claim, g.target[partition] == claim.owner) {
			delete(g.owners, partition)
		}
	}
	for _, partition := range partitions {
		if member := g.target[partition]; member != nil && g.owners[partition] == nil {
			g.grant(partition, member)
		}
	}
}

// prior is the plan so far, and the owner where the plan's member is gone.
func (g *group) prior() map[kafka.Partition]*Consumer {
	prior := make(map[kafka.Partition]*Consumer, len(g.target))
	for partition, member := range g.target {
		if slices.Contains(g.members, member) {
			prior[partition] = member
		} else if claim := g.owners[partition]; claim != nil {
			prior[partition] = claim.owner
		}
	}
	return prior
}

// wanted lists the partitions of all topics that a member wants.
func (g *group) wanted() []kafka.Partition {
	var partitions []kafka.Partition
	for name, topic := range g.broker.topics {
		if !slices.ContainsFunc(g.members, func(member *Consumer) bool { return member.wanted.matches(name) }) {
			continue
		}
		for _, log := range topic.logs {
			partitions = append(partitions, log.partition())
		}
	}
	slices.SortFunc(partitions, func(a, b kafka.Partition) int {
		if a.Topic != b.Topic {
			return strings.Compare(a.Topic, b.Topic)
		}
		return int(a.Index - b.Index)
	})
	return partitions
}

func (g *group) grant(partition kafka.Partition, member *Consumer) {
	log := g.broker.topics[partition.Topic].logs[partition.Index]
	committed, has := g.offsets[partition]
	offset, reset := log.position(committed, has)
	claim := &claim{Partition: log.partition(), log: log, owner: member, offset: offset}
	g.owners[claim.Partition] = claim
	member.add(claim)
	if reset {
		member.report(lapse(claim.Partition, committed, offset))
	}
}
