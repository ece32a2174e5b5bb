package main

// #include "shim.h"
import "C"

import (
	"context"
	"strconv"
	"sync"
	"time"

	"prosody/capi/internal/handle"
	"prosody/core/client"
	"prosody/core/kafka"
)

// patience bounds a call of an admin client (I8).
const patience = 60 * time.Second

// steward is an admin client with the calls that use it.
type steward struct {
	kafka.Admin
	calls sync.WaitGroup
}

//export goAdminCreate
func goAdminCreate(c C.uintptr_t, out *C.uintptr_t, e *C.prosody_error) (status C.prosody_status) {
	defer guard("prosody_admin_create", e, &status)
	if !enter("prosody_admin_create") {
		return refuse(e)
	}
	s := handle.Get[settings](library.handles, uintptr(c))
	if s == nil {
		return stale(e, kindConfig)
	}
	made, err := client.NewAdmin(s.copied(), environment(), library.mocks.Brokers)
	if err != nil {
		return report(e, err)
	}
	*out = C.uintptr_t(handle.Open(library.handles, kindAdmin, &steward{Admin: made}))
	return C.PROSODY_OK
}

// manage runs one call of an admin client.
func manage(a, q C.uintptr_t, tag C.uint64_t, e *C.prosody_error, name string, call func(context.Context, kafka.Admin) error) C.prosody_status {
	admin := handle.Get[steward](library.handles, uintptr(a))
	if admin == nil {
		return stale(e, kindAdmin)
	}
	queue := queueOf(q)
	if queue == nil {
		return stale(e, kindQueue)
	}
	admin.calls.Add(1)
	library.spawn(name, func() {
		defer admin.calls.Done()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		queue.Push(answer(tag, call(ctx, admin.Admin)))
	})
	return C.PROSODY_PENDING
}

//export goAdminCreateTopic
func goAdminCreateTopic(a, q C.uintptr_t, tag C.uint64_t, t *C.prosody_topic, e *C.prosody_error) (status C.prosody_status) {
	defer guard("prosody_admin_create_topic", e, &status)
	if !enter("prosody_admin_create_topic") {
		return refuse(e)
	}
	if t.partitions < 0 || t.replication < 0 || t.retention_ms < -1 {
		return fail(e, C.PROSODY_ERR_ARGUMENT, "topic: a number is negative")
	}
	topic := kafka.Topic{
		Name:        text(t.name),
		Partitions:  int(t.partitions),
		Replication: int(t.replication),
		Config:      map[string]string{},
	}
	if t.cleanup_policy.size > 0 {
		topic.Config["cleanup.policy"] = text(t.cleanup_policy)
	}
	if t.retention_ms != 0 {
		topic.Config["retention.ms"] = strconv.FormatInt(int64(t.retention_ms), 10)
	}
	return manage(a, q, tag, e, "prosody_admin_create_topic", func(ctx context.Context, admin kafka.Admin) error {
		return admin.Create(ctx, topic)
	})
}

//export goAdminDeleteTopic
func goAdminDeleteTopic(a, q C.uintptr_t, tag C.uint64_t, name C.prosody_bytes, e *C.prosody_error) (status C.prosody_status) {
	defer guard("prosody_admin_delete_topic", e, &status)
	if !enter("prosody_admin_delete_topic") {
		return refuse(e)
	}
	topic := text(name)
	return manage(a, q, tag, e, "prosody_admin_delete_topic", func(ctx context.Context, admin kafka.Admin) error {
		return admin.Delete(ctx, topic)
	})
}

//export goAdminDestroy
func goAdminDestroy(a C.uintptr_t) {
	var status C.prosody_status
	defer guard("prosody_admin_destroy", nil, &status)
	inject("prosody_admin_destroy")
	admin := handle.Close[steward](library.handles, kindAdmin, uintptr(a))
	if admin == nil {
		return
	}
	library.spawn("prosody_admin_destroy", func() {
		admin.calls.Wait()
		_ = admin.Close() // nobody is left to hear of it
	})
}
