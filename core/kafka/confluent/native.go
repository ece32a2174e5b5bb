package confluent

/*
#cgo dynamic pkg-config: rdkafka
#cgo dynamic CFLAGS: -DPROSODY_DYNAMIC
#cgo CFLAGS: -Werror=implicit-function-declaration
#cgo LDFLAGS: -lpthread
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"maps"
	"slices"
	"unsafe"

	// It carries librdkafka itself.
	_ "github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"prosody/core/kafka"
)

// logical offsets of librdkafka.
const (
	beginning = C.RD_KAFKA_OFFSET_BEGINNING
	invalid   = C.RD_KAFKA_OFFSET_INVALID
)

const textSize = 512

// open makes the native consumer.
func open(properties map[string]string) (*C.prosody_consumer, error) {
	conf, err := configure(properties)
	if err != nil {
		return nil, err
	}
	why := (*C.char)(C.calloc(1, textSize))
	defer C.free(unsafe.Pointer(why))
	native := C.prosody_new(conf, why, textSize)
	if native == nil {
		text := C.GoString(why)
		for name, value := range properties {
			text = redact(name, value, text)
		}
		return nil, fail(kafka.BadConfig, "consumer: "+text)
	}
	return native, nil
}

// validate names the property that librdkafka refuses; confluent-kafka-go does not.
func validate(properties map[string]string) error {
	conf, err := configure(properties)
	if err != nil {
		return err
	}
	C.rd_kafka_conf_destroy(conf)
	return nil
}

func configure(properties map[string]string) (*C.rd_kafka_conf_t, error) {
	why := (*C.char)(C.calloc(1, textSize))
	defer C.free(unsafe.Pointer(why))
	conf := C.rd_kafka_conf_new()
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if !set(conf, name, properties[name], why) {
			C.rd_kafka_conf_destroy(conf)
			return nil, fail(kafka.BadConfig, "kafka."+name+": "+redact(name, properties[name], C.GoString(why)))
		}
	}
	return conf, nil
}

func set(conf *C.rd_kafka_conf_t, name, value string, why *C.char) bool {
	n, v := C.CString(name), C.CString(value)
	defer C.free(unsafe.Pointer(n))
	defer C.free(unsafe.Pointer(v))
	return C.rd_kafka_conf_set(conf, n, v, why, textSize) == C.RD_KAFKA_CONF_OK
}

// list is a librdkafka list of positions; the caller calls free.
func list(positions []kafka.Position) *C.rd_kafka_topic_partition_list_t {
	made := C.rd_kafka_topic_partition_list_new(C.int(max(1, len(positions))))
	var name string
	var topic *C.char
	for _, position := range positions {
		if topic == nil || position.Topic != name {
			C.free(unsafe.Pointer(topic))
			name, topic = position.Topic, C.CString(position.Topic)
		}
		C.rd_kafka_topic_partition_list_add(made, topic, C.int32_t(position.Index)).offset = C.int64_t(position.Offset)
	}
	C.free(unsafe.Pointer(topic))
	return made
}

func places(partitions []kafka.Partition) *C.rd_kafka_topic_partition_list_t {
	positions := make([]kafka.Position, len(partitions))
	for i, partition := range partitions {
		positions[i] = kafka.Position{Partition: partition, Offset: invalid}
	}
	return list(positions)
}

func free(made *C.rd_kafka_topic_partition_list_t) { C.rd_kafka_topic_partition_list_destroy(made) }

// elements views a list.
func elements(made *C.rd_kafka_topic_partition_list_t) []C.rd_kafka_topic_partition_t {
	return unsafe.Slice(made.elems, int(made.cnt))
}

// pattern tells the fault of a regular expression, or "".
func pattern(text string) string {
	const size = 128
	why := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(why))
	value := C.CString(text)
	defer C.free(unsafe.Pointer(value))
	if C.prosody_regex(value, why, size) == 0 {
		return ""
	}
	return C.GoString(why)
}

// note is a line of librdkafka's log or an error that it reported.
type note struct {
	kind, code int
	text       string
}

func notes(native *C.prosody_consumer) (found []note, missed int) {
	var lost C.int
	for one := C.prosody_take(native, &lost); one != nil; {
		found = append(found, note{int(one.kind), int(one.code), C.GoString(one.text)})
		next := one.next
		C.free(unsafe.Pointer(one))
		one = next
	}
	return found, int(lost)
}
