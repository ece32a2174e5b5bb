// Package health owns the reasons why work does not go on: what stands still, and what
// waits for something outside that a restart would not bring back.
package health

import "prosody/core/kafka"

// Part is what a reason is about.
type Part string

// The parts.
const (
	Process   Part = "process" // a fault of Prosody itself, or of its Kafka client
	PollLoop  Part = "poll_loop"
	Group     Part = "group"
	Partition Part = "partition"
	Handler   Part = "handler"
	Timers    Part = "timers"
	Topic     Part = "topic" // nearly all events of a topic fail
	Broker    Part = "broker"
)

// Reason says why something does not go on.
type Reason struct {
	Part      Part   `json:"part"`
	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	Text      string `json:"text"`
}

// Of makes a reason about a part as a whole.
func Of(part Part, text string) Reason { return Reason{Part: part, Text: text} }

// At makes a reason about a partition.
func At(part Part, at kafka.Partition, text string) Reason {
	index := at.Index
	return Reason{Part: part, Topic: at.Topic, Partition: &index, Text: text}
}

// Texts gives the texts of reasons.
func Texts(reasons []Reason) []string {
	list := make([]string, 0, len(reasons))
	for _, each := range reasons {
		list = append(list, each.Text)
	}
	return list
}
