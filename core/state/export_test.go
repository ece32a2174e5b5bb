package state

import "prosody/core/entity"

// Bytes is what a session's record has in memory.
func Bytes(t *entity.Txn) int64 { return t.Shelf(newShelf).Size() }
