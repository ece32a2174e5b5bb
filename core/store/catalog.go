package store

import (
	"context"
	"unicode/utf8"

	"prosody/core/fault"
)

// Publication tells where the published state of a subsystem is: in the entities of a
// group and topic. Identity is that of the collection, as Identify has it.
type Publication struct{ Subsystem, Name, Group, Topic, Identity string }

// Catalog keeps what collections of state there are. Its errors are those of a Store.
type Catalog interface {
	// Identify records what a group's collection is, unless something is recorded
	// already, and tells what is. Of several at once the first wins.
	Identify(ctx context.Context, group, name, identity string) (string, error)
	// Publish adds a publication, or replaces its identity.
	Publish(ctx context.Context, publication Publication) error
	// Retire removes the publications that a group made of a collection.
	Retire(ctx context.Context, subsystem, name, group string) error
	// Publications lists those of a collection by group and topic.
	Publications(ctx context.Context, subsystem, name string) ([]Publication, error)
}

// CheckTexts says why a catalog cannot hold texts; nil when it can.
func CheckTexts(texts ...string) error {
	size := 0
	for _, text := range texts {
		if size += len(text); !utf8.ValidString(text) {
			return fault.New(fault.Invalid, "%q is not UTF-8", text)
		}
	}
	if size > MaxKey {
		return fault.New(fault.TooLarge, "names have %d bytes together, more than %d", size, MaxKey)
	}
	return nil
}
