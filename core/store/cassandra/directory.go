package cassandra

import (
	"context"
	"errors"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"prosody/core/store"
)

const (
	enroll   = "INSERT INTO peer_directory (peer_id, advertised_connect, direct_socket_address, hostname, network) VALUES (?, ?, ?, ?, ?) USING TTL ?"
	withdraw = "DELETE FROM peer_directory WHERE peer_id = ?"
	locate   = "SELECT advertised_connect, direct_socket_address, hostname, network FROM peer_directory WHERE peer_id = ?"
)

// Enroll writes the row anew: it ends with its time to live.
func (s *Store) Enroll(ctx context.Context, p store.Peer, ttl time.Duration) error {
	if err := store.CheckTexts(p.Direct, p.Advertised, p.Host, p.Network); err != nil {
		return err
	}
	return exec(ctx, "Enroll", s.session.Query(enroll, gocql.UUID(p.ID), optional(p.Advertised), p.Direct, p.Host, optional(p.Network), s.ttl(ttl)))
}

// Withdraw deletes the row.
func (s *Store) Withdraw(ctx context.Context, id [16]byte) error {
	return exec(ctx, "Withdraw", s.session.Query(withdraw, gocql.UUID(id)))
}

// Locate reads the row. Without an address there is none: one of its cells is left.
func (s *Store) Locate(ctx context.Context, id [16]byte) (store.Peer, bool, error) {
	found := store.Peer{ID: id}
	var advertised, direct, host, network *string
	err := guard("Locate", func() error {
		err := s.session.Query(locate, gocql.UUID(id)).ScanContext(ctx, &advertised, &direct, &host, &network)
		if errors.Is(err, gocql.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil || direct == nil && advertised == nil {
		return store.Peer{}, false, err
	}
	for field, value := range map[*string]*string{&found.Advertised: advertised, &found.Direct: direct, &found.Host: host, &found.Network: network} {
		if value != nil {
			*field = *value
		}
	}
	return found, true, nil
}

// optional is a text that may be null.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

var _ store.Directory = (*Store)(nil)
