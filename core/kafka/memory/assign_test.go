package memory

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"prosody/core/kafka"
)

// One owner each, no move of one partition makes it fairer, and a partition moves only
// to lower somebody's share.
func TestAssignIsFairAndSticky(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topics := rapid.IntRange(1, 4).Draw(t, "topics")
		var partitions []kafka.Partition
		for topic := range topics {
			for index := range rapid.IntRange(1, 9).Draw(t, "partitions") {
				partitions = append(partitions, kafka.Partition{Topic: fmt.Sprint(topic), Index: int32(index)})
			}
		}
		members, wants := []int{}, map[int]map[string]bool{}
		for member := range rapid.IntRange(0, 6).Draw(t, "members") {
			members = append(members, member)
			wants[member] = map[string]bool{}
			for topic := range topics {
				wants[member][fmt.Sprint(topic)] = rapid.Bool().Draw(t, "wants")
			}
		}
		prior := map[kafka.Partition]int{}
		for _, partition := range partitions {
			if owner := rapid.IntRange(-1, 8).Draw(t, "prior"); owner >= 0 {
				prior[partition] = owner
			}
		}
		want := func(member int, topic string) bool { return wants[member][topic] }
		target := assign(members, partitions, want, prior)

		share, before := map[int]int{}, map[int]int{}
		for _, partition := range partitions {
			wanted := slices.ContainsFunc(members, func(m int) bool { return want(m, partition.Topic) })
			owner, has := target[partition]
			assert.Equal(t, wanted, has, "%v", partition)
			if has {
				assert.True(t, want(owner, partition.Topic), "%v", partition)
				share[owner]++
			}
			if owner, has := prior[partition]; has && slices.Contains(members, owner) && want(owner, partition.Topic) {
				before[owner]++
			}
		}
		for partition, owner := range target {
			for _, other := range members {
				if want(other, partition.Topic) {
					assert.LessOrEqual(t, share[owner]-share[other], 1, "%v could go from %d to %d", partition, owner, other)
				}
			}
		}
		// Again with its own result, nothing moves.
		assert.Equal(t, target, assign(members, partitions, want, target))
		// Where all want all, no more moves than the shares need.
		for _, member := range members {
			if len(wants[member]) == 0 || slices.ContainsFunc(partitions, func(p kafka.Partition) bool { return !want(member, p.Topic) }) {
				return
			}
		}
		for _, member := range members {
			kept := 0
			for partition, owner := range target {
				if previous, has := prior[partition]; has && previous == member && owner == member {
					kept++
				}
			}
			assert.GreaterOrEqual(t, kept, min(before[member], len(partitions)/len(members)), "member %d", member)
		}
	})
}
