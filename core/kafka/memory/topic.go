package memory

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"prosody/core/kafka"
)

// topic is a named list of logs. A topic that is deleted and made again is another one.
type topic struct {
	name      string
	compact   bool
	retention int  // bytes of a partition
	record    int  // bytes of a record
	implied   bool // made by a subscription
	logs      []*log
	appended  *atomic.Int64 // of the broker
}

// blank tells whether nobody asked for the topic but subscribers, and nothing was written.
func (t *topic) blank() bool {
	return t.implied && !slices.ContainsFunc(t.logs, func(log *log) bool { return log.end.Load() > 0 })
}

const longest = 249 // characters of a topic's name

// check refuses the names that a Kafka broker refuses.
func check(name string) error {
	switch {
	case name == "":
		return fail(kafka.BadTopic, "a topic name must not be empty")
	case name == "." || name == "..":
		return fail(kafka.BadTopic, "topic name "+name+" is not allowed")
	case len(name) > longest:
		return fail(kafka.BadTopic, "a topic name has at most "+strconv.Itoa(longest)+" characters; this one has "+strconv.Itoa(len(name)))
	}
	for _, letter := range []byte(name) {
		switch {
		case 'a' <= letter && letter <= 'z', 'A' <= letter && letter <= 'Z', '0' <= letter && letter <= '9':
		case letter == '.', letter == '_', letter == '-':
		default:
			return fail(kafka.BadTopic, "topic name "+strconv.Quote(name)+" may hold only letters of ASCII, digits, '.', '_' and '-'")
		}
	}
	return nil
}

func (b *Broker) newTopic(wish kafka.Topic) (*topic, error) {
	settings := b.settings
	if err := check(wish.Name); err != nil {
		return nil, err
	}
	made := &topic{
		name: strings.Clone(wish.Name), retention: settings.Retention, record: settings.Record, appended: &b.appended,
	}
	for name, value := range wish.Config {
		if err := made.set(name, value); err != nil {
			return nil, err
		}
	}
	count := wish.Partitions
	if count == 0 {
		count = settings.Partitions
	}
	if count < 0 {
		return nil, fail(kafka.BadConfig, "topic "+wish.Name+" needs 1 partition or more")
	}
	made.grow(count)
	return made, nil
}

// set takes one setting of a topic. Those that mean nothing in memory are accepted.
func (t *topic) set(name, value string) error {
	refuse := func(rule string) error {
		return fail(kafka.BadConfig, "topic "+t.name+": "+name+"="+strconv.Quote(value)+": "+rule)
	}
	switch name {
	case "cleanup.policy":
		for policy := range strings.SplitSeq(value, ",") {
			switch strings.TrimSpace(policy) {
			case "compact":
				t.compact = true
			case "delete":
			default:
				return refuse("must be compact, delete or both")
			}
		}
	case "max.message.bytes":
		limit, err := strconv.Atoi(value)
		if err != nil || limit < 0 {
			return refuse("must be a whole number from 0")
		}
		t.record = limit
	case "retention.ms":
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			return refuse("must be a whole number")
		}
	case "retention.bytes":
		limit, err := strconv.Atoi(value)
		if err != nil || limit < -1 {
			return refuse("must be a whole number from -1")
		}
		if limit >= 0 { // -1: the broker's own bound
			t.retention = limit
		}
	}
	return nil
}

func (t *topic) grow(count int) {
	for index := len(t.logs); index < count; index++ {
		t.logs = append(t.logs, &log{topic: t, index: int32(index)})
	}
}

// place is the log of a key.
func (t *topic) place(hash uint32) *log { return t.logs[hash%uint32(len(t.logs))] }

// subscription is what a member wants: topics by name and by pattern.
type subscription struct {
	names    map[string]bool
	patterns []*regexp.Regexp
}

func subscribe(topics []string) (*subscription, error) {
	if len(topics) == 0 {
		return nil, fail(kafka.BadConfig, "a subscription needs a topic")
	}
	wanted := &subscription{names: map[string]bool{}}
	for _, topic := range topics {
		if !strings.HasPrefix(topic, "^") {
			if err := check(topic); err != nil {
				return nil, err
			}
			wanted.names[strings.Clone(topic)] = true
			continue
		}
		pattern, err := regexp.Compile(topic)
		if err != nil {
			return nil, fail(kafka.BadTopic, "topic pattern "+strconv.Quote(topic)+": "+err.Error())
		}
		wanted.patterns = append(wanted.patterns, pattern)
	}
	return wanted, nil
}

func (s *subscription) matches(topic string) bool {
	if s.names[topic] {
		return true
	}
	if strings.HasPrefix(topic, "__") {
		return false
	}
	for _, pattern := range s.patterns {
		if pattern.MatchString(topic) {
			return true
		}
	}
	return false
}
