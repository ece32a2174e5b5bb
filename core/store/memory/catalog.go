package memory

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"prosody/core/store"
)

// catalog is what collections there are.
type catalog struct {
	mutex      sync.Mutex
	identities map[[2]string]string // by group and name
	published  map[[2]string][]store.Publication
}

func (c *catalog) reset() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.identities, c.published = map[[2]string]string{}, map[[2]string][]store.Publication{}
}

// Identify records what a collection is.
func (s *Store) Identify(ctx context.Context, group, name, identity string) (recorded string, err error) {
	err = s.run(ctx, "Identify", store.Key{Group: group, Key: name}, store.CheckTexts(group, name, identity), func() {
		s.catalog.mutex.Lock()
		defer s.catalog.mutex.Unlock()
		at := [2]string{group, name}
		if _, known := s.catalog.identities[at]; !known {
			s.catalog.identities[at] = identity
		}
		recorded = s.catalog.identities[at]
	})
	return recorded, err
}

// Publish adds a publication.
func (s *Store) Publish(ctx context.Context, p store.Publication) error {
	invalid := store.CheckTexts(p.Subsystem, p.Name, p.Group, p.Topic, p.Identity)
	return s.run(ctx, "Publish", store.Key{Group: p.Group, Topic: p.Topic, Key: p.Name}, invalid, func() {
		s.catalog.mutex.Lock()
		defer s.catalog.mutex.Unlock()
		at := [2]string{p.Subsystem, p.Name}
		list := slices.DeleteFunc(slices.Clone(s.catalog.published[at]), func(old store.Publication) bool {
			return old.Group == p.Group && old.Topic == p.Topic
		})
		list = append(list, p)
		slices.SortFunc(list, func(a, b store.Publication) int {
			return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic))
		})
		s.catalog.published[at] = list
	})
}

// Retire removes publications.
func (s *Store) Retire(ctx context.Context, subsystem, name, group string) error {
	return s.run(ctx, "Retire", store.Key{Group: group, Key: name}, store.CheckTexts(subsystem, name, group), func() {
		s.catalog.mutex.Lock()
		defer s.catalog.mutex.Unlock()
		at := [2]string{subsystem, name}
		s.catalog.published[at] = slices.DeleteFunc(slices.Clone(s.catalog.published[at]), func(old store.Publication) bool { return old.Group == group })
	})
}

// Publications lists publications.
func (s *Store) Publications(ctx context.Context, subsystem, name string) (list []store.Publication, err error) {
	err = s.run(ctx, "Publications", store.Key{Key: name}, store.CheckTexts(subsystem, name), func() {
		s.catalog.mutex.Lock()
		defer s.catalog.mutex.Unlock()
		list = slices.Clone(s.catalog.published[[2]string{subsystem, name}])
	})
	return list, err
}

var _ store.Catalog = (*Store)(nil)
