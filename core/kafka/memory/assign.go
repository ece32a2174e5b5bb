package memory

import (
	"slices"

	"prosody/core/kafka"
)

// assign shares partitions among members. A partition stays with its prior member
// unless that one is gone or has at least two more than another that could take it.
// members and partitions come in a stable order; wants tells what a member may get.
func assign[M comparable](
	members []M, partitions []kafka.Partition, wants func(M, string) bool, prior map[kafka.Partition]M,
) map[kafka.Partition]M {
	eligible := map[string][]M{}
	held := map[M][]kafka.Partition{}
	target := make(map[kafka.Partition]M, len(partitions))

	// least finds the eligible member that holds least: the first of them.
	least := func(topic string) M {
		best := eligible[topic][0]
		for _, member := range eligible[topic][1:] {
			if len(held[member]) < len(held[best]) {
				best = member
			}
		}
		return best
	}
	give := func(partition kafka.Partition, member M) {
		target[partition] = member
		held[member] = append(held[member], partition)
	}

	var open []kafka.Partition
	for _, partition := range partitions {
		if _, known := eligible[partition.Topic]; !known {
			eligible[partition.Topic] = nil
			for _, member := range members {
				if wants(member, partition.Topic) {
					eligible[partition.Topic] = append(eligible[partition.Topic], member)
				}
			}
		}
		if member, has := prior[partition]; has && slices.Contains(eligible[partition.Topic], member) {
			give(partition, member)
		} else if len(eligible[partition.Topic]) > 0 {
			open = append(open, partition)
		}
	}
	for _, partition := range open {
		give(partition, least(partition.Topic))
	}
	for step(members, held, target, least) {
	}
	return target
}

// step moves one partition from the fullest member that has one to give. Each step
// lowers the sum of the squared shares, so steps come to an end.
func step[M comparable](
	members []M, held map[M][]kafka.Partition, target map[kafka.Partition]M, least func(string) M,
) bool {
	var from, to M
	found, best := -1, 0
	for _, member := range members {
		if len(held[member]) <= best {
			continue
		}
		topic := ""
		for i := len(held[member]) - 1; i >= 0; i-- {
			if held[member][i].Topic == topic {
				continue
			}
			topic = held[member][i].Topic
			taker := least(topic)
			if len(held[member])-len(held[taker]) >= 2 {
				found, best, from, to = i, len(held[member]), member, taker
				break
			}
		}
	}
	if found < 0 {
		return false
	}
	moved := held[from][found]
	held[from] = append(held[from][:found], held[from][found+1:]...)
	held[to] = append(held[to], moved)
	target[moved] = to
	return true
}
