package cassandra

import (
	"context"
	"errors"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"prosody/core/store"
)

// The directory is a table of our own, and that of services on other implementations of
// Prosody, where the keyspace has it. They make theirs on their own, and fail when it is
// there already.
const (
	own     = "directory"
	foreign = "peer_directory"

	columns  = "advertised_connect, direct_socket_address, hostname, network"
	enroll   = " (peer_id, " + columns + ") VALUES (?, ?, ?, ?, ?) USING TTL ?"
	identity = " WHERE peer_id = ?"
)

// Enroll writes the row anew: it ends with its time to live.
func (s *Store) Enroll(ctx context.Context, p store.Peer, ttl time.Duration) error {
	if err := store.CheckTexts(p.Direct, p.Advertised, p.Host, p.Network); err != nil {
		return err
	}
	write := func(table string) error {
		return exec(ctx, "Enroll", s.session.Query("INSERT INTO "+table+enroll,
			gocql.UUID(p.ID), optional(p.Advertised), p.Direct, p.Host, optional(p.Network), s.ttl(ttl)))
	}
	if err := write(own); err != nil {
		return err
	}
	return unless(write(foreign))
}

// Withdraw deletes the rows.
func (s *Store) Withdraw(ctx context.Context, id [16]byte) error {
	remove := func(table string) error {
		return exec(ctx, "Withdraw", s.session.Query("DELETE FROM "+table+identity, gocql.UUID(id)))
	}
	return errors.Join(remove(own), unless(remove(foreign)))
}

// Locate reads the row.
func (s *Store) Locate(ctx context.Context, id [16]byte) (store.Peer, bool, error) {
	found, there, err := s.locate(ctx, own, id)
	if err != nil || there {
		return found, there, err
	}
	found, there, err = s.locate(ctx, foreign, id)
	return found, there, unless(err)
}

// locate reads the row of one table. One without any address is what an end has left.
func (s *Store) locate(ctx context.Context, table string, id [16]byte) (store.Peer, bool, error) {
	var advertised, direct, host, network *string
	err := guard("Locate", func() error {
		return s.session.Query("SELECT "+columns+" FROM "+table+identity, gocql.UUID(id)).
			ScanContext(ctx, &advertised, &direct, &host, &network)
	})
	if errors.Is(err, gocql.ErrNotFound) {
		return store.Peer{}, false, nil
	}
	found := store.Peer{ID: id, Direct: text(direct), Advertised: text(advertised), Host: text(host), Network: text(network)}
	return found, err == nil && (direct != nil || advertised != nil), err
}

// unless forgives that a table is not there.
func unless(err error) error {
	var refused gocql.RequestError
	if errors.As(err, &refused) && refused.Code() == gocql.ErrCodeInvalid {
		return nil
	}
	return err
}

// optional is a text that may be null.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

var _ store.Directory = (*Store)(nil)
