package request

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// The table against a model that keeps everything: a request ends once, the first answer
// of a subsystem counts, and no answer changes another request.
func TestTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newTable()
		type model struct {
			answers map[string]Answer
			over    bool
		}
		known := map[ID]*model{}
		names := []string{"a", "b", "c"}
		id := rapid.Custom(func(t *rapid.T) ID { return ID{byte(rapid.IntRange(0, 5).Draw(t, "id"))} })
		serial := 0
		end := func(id ID, answers []Answer) {
			one := known[id]
			assert.False(t, one.over, "a request ends once")
			one.over = true
			assert.Len(t, answers, len(one.answers))
			for _, answer := range answers {
				expected := one.answers[answer.Subsystem]
				if expected.Kind == 0 {
					expected = Answer{Subsystem: answer.Subsystem, Kind: Timeout}
				}
				assert.Equal(t, expected, answer)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				id := id.Draw(t, "id")
				if known[id] != nil {
					return
				}
				count := rapid.IntRange(1, len(names)).Draw(t, "count")
				table.open(id, names[:count])
				known[id] = &model{answers: map[string]Answer{}}
				for _, name := range names[:count] {
					known[id].answers[name] = Answer{Subsystem: name}
				}
			},
			"settle": func(t *rapid.T) {
				id := id.Draw(t, "id")
				serial++
				answer := Answer{Subsystem: rapid.SampledFrom(append(names, "x")).Draw(t, "name"), Kind: Success, Text: fmt.Sprint(serial)}
				verdict, answers := table.settle(id, answer)
				one := known[id]
				switch {
				case one == nil:
					assert.Equal(t, Unknown, verdict)
				case one.over:
					assert.Equal(t, Late, verdict)
				default:
					before, asked := one.answers[answer.Subsystem]
					switch {
					case !asked:
						assert.Equal(t, Foreign, verdict)
					case before.Kind != 0:
						assert.Equal(t, Duplicate, verdict)
					default:
						assert.Equal(t, Accepted, verdict)
						one.answers[answer.Subsystem] = answer
					}
					whole := true
					for _, each := range one.answers {
						whole = whole && each.Kind != 0
					}
					assert.Equal(t, whole, answers != nil)
				}
				if answers != nil {
					end(id, answers)
				}
			},
			"expire": func(t *rapid.T) {
				id := id.Draw(t, "id")
				answers := table.expire(id)
				one := known[id]
				assert.Equal(t, one != nil && !one.over, answers != nil)
				if answers != nil {
					end(id, answers)
				}
			},
			"end": func(t *rapid.T) {
				id := id.Draw(t, "id")
				one := known[id]
				assert.Equal(t, one != nil && !one.over, table.end(id))
				if one != nil {
					one.over = true
				}
			},
			"": func(t *rapid.T) {
				open := 0
				for _, one := range known {
					if !one.over {
						open++
					}
				}
				assert.Len(t, table.pending, open)
			},
		})
	})
}

func TestWhatHasEndedIsForgottenInTime(t *testing.T) {
	table := newTable()
	name := func(n int) ID { return ID{byte(n), byte(n >> 8), byte(n >> 16)} }
	for n := range 3 * remembered {
		table.open(name(n), []string{"a"})
		table.end(name(n))
	}
	assert.Len(t, table.ended, remembered)
	assert.Len(t, table.ring, remembered)
	verdict, _ := table.settle(name(3*remembered-1), Answer{Subsystem: "a"})
	assert.Equal(t, Late, verdict)
	verdict, _ = table.settle(name(0), Answer{Subsystem: "a"})
	assert.Equal(t, Unknown, verdict)
}
