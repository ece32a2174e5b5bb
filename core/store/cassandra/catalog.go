package cassandra

import (
	"context"
	"errors"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"prosody/core/store"
)

const (
	readIdentity = "SELECT identity FROM identity WHERE group_id = ? AND name = ?"
	addIdentity  = "INSERT INTO identity (group_id, name, identity) VALUES (?, ?, ?) IF NOT EXISTS"

	publish      = "INSERT INTO publication (subsystem, name, group_id, topic, identity) VALUES (?, ?, ?, ?, ?)"
	retire       = "DELETE FROM publication WHERE subsystem = ? AND name = ? AND group_id = ?"
	publications = "SELECT group_id, topic, identity FROM publication WHERE subsystem = ? AND name = ?"
)

// Identify reads first: only the first process of a group has to win.
func (s *Store) Identify(ctx context.Context, group, name, identity string) (string, error) {
	if err := store.CheckTexts(group, name, identity); err != nil {
		return "", err
	}
	for {
		var recorded string
		err := s.session.Query(readIdentity, group, name).ScanContext(ctx, &recorded)
		if err == nil {
			return recorded, nil
		}
		if !errors.Is(err, gocql.ErrNotFound) {
			return "", failure("Identify", err)
		}
		previous := map[string]any{}
		won, err := s.session.Query(addIdentity, group, name, identity).
			SerialConsistency(gocql.LocalSerial).MapScanCASContext(ctx, previous)
		if err != nil {
			return "", failure("Identify", err)
		}
		if won {
			return identity, nil
		}
	}
}

// Publish writes a row.
func (s *Store) Publish(ctx context.Context, p store.Publication) error {
	if err := store.CheckTexts(p.Subsystem, p.Name, p.Group, p.Topic, p.Identity); err != nil {
		return err
	}
	return exec(ctx, "Publish", s.session.Query(publish, p.Subsystem, p.Name, p.Group, p.Topic, p.Identity))
}

// Retire removes a group's rows.
func (s *Store) Retire(ctx context.Context, subsystem, name, group string) error {
	if err := store.CheckTexts(subsystem, name, group); err != nil {
		return err
	}
	return exec(ctx, "Retire", s.session.Query(retire, subsystem, name, group))
}

// Publications reads the rows of a collection.
func (s *Store) Publications(ctx context.Context, subsystem, name string) ([]store.Publication, error) {
	if err := store.CheckTexts(subsystem, name); err != nil {
		return nil, err
	}
	var list []store.Publication
	query := s.session.Query(publications, subsystem, name).PageSize(page)
	err := scan(ctx, "Publications", query, func(iter *gocql.Iter) bool {
		p := store.Publication{Subsystem: subsystem, Name: name}
		if !iter.Scan(&p.Group, &p.Topic, &p.Identity) {
			return false
		}
		list = append(list, p)
		return true
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

var _ store.Catalog = (*Store)(nil)
