package cassandra

import (
	"context"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"prosody/core/store"
)

// The root is a row of its own kind, not a static column: Cassandra finds out whether a
// partition with only a static column has rows by reading all of its tombstones.
const root store.Kind = 0

const (
	putRow    = "INSERT INTO entity (group_id, topic, key, kind, name, coordinate, data) VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?"
	deleteRow = "DELETE FROM entity USING TIMESTAMP ? WHERE group_id = ? AND topic = ? AND key = ? AND kind = ? AND name = ? AND coordinate = ?"
	deleteAll = "DELETE FROM entity USING TIMESTAMP ? WHERE group_id = ? AND topic = ? AND key = ? AND kind = ? AND name = ? AND coordinate >= ?"
	deleteTo  = deleteAll + " AND coordinate < ?"

	readRows = "SELECT coordinate, data FROM entity WHERE group_id = ? AND topic = ? AND key = ? AND kind = ? AND name = ? AND coordinate "
	readOne  = readRows + "= ?"
	readMany = readRows + "IN ?"
	scanAll  = readRows + ">= ?"
	scanTo   = scanAll + " AND coordinate < ?"
	backward = " ORDER BY kind DESC, name DESC, coordinate DESC"
	limited  = " LIMIT ?"
)

// page is the most rows of one answer.
const page = 5000

// Root reads the root.
func (s *Store) Root(ctx context.Context, key store.Key) ([]byte, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, err
	}
	var data []byte
	err := s.read(ctx, "Root", key, store.Slot{Kind: root}, []string{""}, func(row store.Row) { data = row.Data })
	if err != nil {
		return nil, err
	}
	return data, nil
}

// many is how many slots, and bytes of them, one query asks for.
const many, heavy = 200, 1 << 20

// Get reads the data at slots: one query for those of one kind and name.
func (s *Store) Get(ctx context.Context, key store.Key, slots []store.Slot) ([][]byte, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, err
	}
	if err := store.CheckSlots(slots...); err != nil {
		return nil, err
	}
	result := make([][]byte, len(slots))
	wanted := map[store.Slot][]int{}
	groups := map[store.Slot][]string{} // by kind and name
	for i, slot := range slots {
		if wanted[slot] == nil {
			group := store.Slot{Kind: slot.Kind, Name: slot.Name}
			groups[group] = append(groups[group], slot.Coordinate)
		}
		wanted[slot] = append(wanted[slot], i)
	}
	for group, coordinates := range groups {
		for len(coordinates) > 0 {
			count, size := 0, 0
			for count < len(coordinates) && count < many && size < heavy {
				size += len(coordinates[count])
				count++
			}
			err := s.read(ctx, "Get", key, group, coordinates[:count], func(row store.Row) {
				for _, i := range wanted[row.Slot] {
					result[i] = append([]byte{}, row.Data...)
				}
			})
			if err != nil {
				return nil, err
			}
			coordinates = coordinates[count:]
		}
	}
	return result, nil
}

func (s *Store) read(ctx context.Context, op string, key store.Key, group store.Slot, coordinates []string, visit func(store.Row)) error {
	if len(coordinates) == 1 {
		query := s.session.Query(readOne, key.Group, key.Topic, key.Key, int8(group.Kind), group.Name, coordinates[0])
		return rows(ctx, op, query, group.Kind, group.Name, visit)
	}
	list := make([][]byte, len(coordinates))
	for i := range coordinates {
		list[i] = []byte(coordinates[i])
	}
	query := s.session.Query(readMany, key.Group, key.Topic, key.Key, int8(group.Kind), group.Name, list)
	return rows(ctx, op, query, group.Kind, group.Name, visit)
}

// rows visits all rows that a query answers; at an error the visits count for nothing.
func rows(ctx context.Context, op string, query *gocql.Query, kind store.Kind, name string, visit func(store.Row)) error {
	return scan(ctx, op, query, func(iter *gocql.Iter) bool {
		row := store.Row{Slot: store.Slot{Kind: kind, Name: name}}
		if !iter.Scan(&row.Coordinate, &row.Data) {
			return false
		}
		if row.Data == nil {
			row.Data = []byte{}
		}
		visit(row)
		return true
	})
}

// Scan reads rows of a range. Up to 4,999 rows are one snapshot.
func (s *Store) Scan(ctx context.Context, key store.Key, span store.Range, back bool, limit int) ([]store.Row, bool, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, false, err
	}
	if err := store.CheckRange(span); err != nil {
		return nil, false, err
	}
	statement := scanAll
	values := []any{key.Group, key.Topic, key.Key, int8(span.Kind), span.Name, span.From}
	if span.To != "" {
		statement = scanTo
		values = append(values, span.To)
	}
	if back {
		statement += backward
	}
	values = append(values, limit+1)
	query := s.session.Query(statement+limited, values...).PageSize(min(limit+1, page))
	var result []store.Row
	err := rows(ctx, "Scan", query, span.Kind, span.Name, func(row store.Row) { result = append(result, row) })
	if err != nil {
		return nil, false, err
	}
	if len(result) > limit {
		return result[:limit], true, nil
	}
	return result, false, nil
}

// Apply writes a batch as one mutation of one partition.
func (s *Store) Apply(ctx context.Context, key store.Key, batch store.Batch) error {
	if err := store.CheckBatch(key, batch, s.Limits()); err != nil {
		return err
	}
	if batch.Empty() {
		return nil
	}
	write := s.session.Batch(gocql.UnloggedBatch)
	add := func(statement string, values ...any) {
		write.Entries = append(write.Entries, gocql.BatchEntry{Stmt: statement, Args: values, Idempotent: true})
	}
	put := func(slot store.Slot, data []byte, ttl time.Duration) {
		if data == nil {
			data = []byte{} // nil would be null
		}
		add(putRow, key.Group, key.Topic, key.Key, int8(slot.Kind), slot.Name, slot.Coordinate, data, batch.Stamp, s.ttl(ttl))
	}
	if batch.Root != nil {
		put(store.Slot{Kind: root}, batch.Root, batch.RootTTL)
	}
	for i := range batch.Puts {
		put(batch.Puts[i].Slot, batch.Puts[i].Data, batch.Puts[i].TTL)
	}
	for i := range batch.Deletes {
		slot := &batch.Deletes[i]
		add(deleteRow, batch.Stamp-1, key.Group, key.Topic, key.Key, int8(slot.Kind), slot.Name, slot.Coordinate)
	}
	for i := range batch.Ranges {
		span := &batch.Ranges[i]
		values := []any{batch.Stamp - 1, key.Group, key.Topic, key.Key, int8(span.Kind), span.Name, span.From}
		switch {
		case span.To == "":
			add(deleteAll, values...)
		case span.From < span.To:
			add(deleteTo, append(values, span.To)...)
		}
	}
	switch len(write.Entries) {
	case 0:
		return nil
	case 1:
		only := &write.Entries[0]
		return exec(ctx, "Apply", s.session.Query(only.Stmt, only.Args...))
	}
	return exec(ctx, "Apply", write)
}
