package confluent

/*
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"maps"
	"slices"
	"time"
	"unsafe"

	library "github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"prosody/core/kafka"
)

// identify is how often the topics are looked at.
const identify = 5 * time.Second

// identities asks for the topics' identities now and then. It finds topics that were
// deleted and made again, which librdkafka does not when the new log is the longer,
// and topics that are not there, of which librdkafka says little.
func (c *consumer) identities(events *kafka.Events, again []kafka.Position) []kafka.Position {
	if !c.asking {
		c.ask()
		return again
	}
	var first *C.prosody_identity
	count := C.prosody_answer(c.native, &first)
	if count < 0 {
		return again
	}
	defer C.free(unsafe.Pointer(first))
	c.asking = false
	for _, identity := range unsafe.Slice(first, int(count)) {
		topic := C.GoString(identity.topic)
		C.free(unsafe.Pointer(identity.topic))
		c.presence(events, topic, library.ErrorCode(identity.err))
		if identity.err == 0 && identity.partitions > 0 {
			c.counts[topic] = int(identity.partitions)
		}
		high, low := int64(identity.high), int64(identity.low)
		if identity.err != 0 || high == 0 && low == 0 { // or an old broker
			continue
		}
		for _, s := range c.slots {
			if s.at.Topic != topic {
				continue
			}
			known := s.high != 0 || s.low != 0
			if known && (s.high != high || s.low != low) && !s.again {
				c.restart(events, s, "the topic was deleted and made again")
				again = append(again, kafka.Position{Partition: s.at, Offset: beginning})
			}
			s.high, s.low, s.again = high, low, false
		}
	}
	return again
}

// ask starts a look if it is time.
func (c *consumer) ask() {
	now := time.Now()
	if now.Sub(c.asked) < identify {
		return
	}
	wanted := map[string]bool{}
	for _, topic := range c.topics {
		wanted[topic] = true
	}
	for at := range c.slots {
		wanted[at.Topic] = true
	}
	if len(wanted) == 0 {
		return
	}
	c.asked, c.asking = now, true
	var names []*C.char
	for topic := range maps.Keys(wanted) {
		names = append(names, C.CString(topic))
	}
	C.prosody_ask(c.native, &names[0], C.size_t(len(names)))
	for _, name := range names {
		C.free(unsafe.Pointer(name))
	}
}

// presence tells once that a subscribed topic is not there.
func (c *consumer) presence(events *kafka.Events, topic string, code library.ErrorCode) {
	if !slices.Contains(c.topics, topic) {
		return
	}
	if code == library.ErrUnknownTopicOrPart && !c.missing[topic] {
		events.Errors = append(events.Errors, fail(kafka.UnknownTopic, "topic "+topic+" does not exist; it is read once it does"))
	}
	c.missing[topic] = code == library.ErrUnknownTopicOrPart
}
