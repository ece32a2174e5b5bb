package durable

import (
	"context"

	"prosody/core/entity"
	"prosody/core/kafka"
)

// Ledger lets a consumer drive a Keeper.
type Ledger struct{ Keeper *entity.Keeper }

// Assign begins an assignment.
func (l Ledger) Assign(name kafka.Partition, _ context.Context) any { return l.Keeper.Assign(name) }

// Flush writes the marks that wait.
func (l Ledger) Flush(ctx context.Context, names []kafka.Partition) ([]kafka.Partition, error) {
	return l.Keeper.Flush(ctx, names)
}

// Fence ends the right to commit.
func (l Ledger) Fence(lease any) {
	if given, ok := lease.(*entity.Lease); ok {
		given.Fence()
	}
}

// End gives the assignment up.
func (l Ledger) End(lease any) {
	if given, ok := lease.(*entity.Lease); ok {
		given.End()
	}
}

// Hold refuses commits while the group may not know the member.
func (l Ledger) Hold(held bool) { l.Keeper.Hold(held) }
