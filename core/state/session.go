package state

import (
	"cmp"
	"context"
	"sync"
	"time"

	"prosody/core/clock"
	"prosody/core/config"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/store"
)

// Options say what a consumer keeps. Read and Kept give records that were delivered:
// Kept only what is in memory, or nil.
type Options struct {
	Collections []config.Collection
	Read        func(ctx context.Context, at kafka.Partition, offset int64) (*kafka.Record, error)
	Kept        func(at kafka.Partition, offset int64) *kafka.Record
	Clock       clock.Clock
	Bytes       int64 // of the cells of one key in memory; 8 MiB
}

// Registry is the collections of one consumer. A nil one has none.
type Registry struct {
	options     Options
	counts      counts
	collections map[string]config.Collection
}

// New makes a registry of collections that core/config has checked.
func New(options Options) *Registry {
	if options.Clock == nil {
		options.Clock = clock.Real{}
	}
	if options.Bytes <= 0 {
		options.Bytes = 8 << 20
	}
	r := &Registry{options: options, collections: map[string]config.Collection{}}
	for _, collection := range options.Collections {
		r.collections[collection.Name] = collection
	}
	return r
}

// Record is what a session rests on: *entity.Txn in an attempt. See there.
type Record interface {
	Shelf(fill func([]entity.Header) entity.Shelf) entity.Shelf
	Headers() []entity.Header
	Load(ctx context.Context) error
	Get(ctx context.Context, slots ...store.Slot) ([][]byte, error)
	Scan(ctx context.Context, span store.Range, backward bool, limit int) ([]store.Row, bool, error)
	Kept(slots ...store.Slot) ([][]byte, bool)
	Limits() store.Limits
	Grown() bool
	Join(part entity.Part) error
	Save(ctx context.Context, part entity.Part) error
}

// Session is the collections of a key in one attempt. It needs an End.
type Session struct {
	registry *Registry
	record   Record
	own      *event.Event

	mutex   sync.Mutex // before that of a shelf
	over    bool
	bytes   int // of what is buffered
	bases   map[string]*base
	handles map[string]Handle
}

// Begin starts the session of an attempt. of is the event that it handles.
func (r *Registry) Begin(txn *entity.Txn, of *event.Event) *Session {
	if r == nil {
		r = New(Options{})
	}
	return &Session{registry: r, record: txn, own: of}
}

// Over starts a session to read from a record. It needs no End.
func (r *Registry) Over(record Record) *Session { return &Session{registry: r, record: record} }

// Bind gives the handle of a collection.
func (s *Session) Bind(wanted Identity) (Handle, error) {
	definition, known := s.registry.collections[wanted.Name]
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.over {
		return nil, errOver()
	}
	if !known {
		return nil, errUnknown(wanted.Name)
	}
	if is := IdentityOf(definition); is != wanted {
		return nil, errMismatch(wanted.Name, is, wanted)
	}
	if handle := s.handles[wanted.Name]; handle != nil {
		return handle, nil
	}
	b := &base{session: s, definition: definition, pending: newPending()}
	var handle Handle
	switch wanted.Kind {
	case config.KindValue:
		handle = &Value{b}
	case config.KindMap:
		handle = &Map{keys{b}}
	case config.KindSet:
		handle = &Set{keys{b}}
	default:
		handle = &Deque{b}
	}
	if s.handles == nil {
		s.handles, s.bases = map[string]Handle{}, map[string]*base{}
	}
	s.handles[wanted.Name], s.bases[wanted.Name] = handle, b
	return handle, nil
}

// IdentityOf tells the identity of a definition.
func IdentityOf(definition config.Collection) Identity {
	return Identity{Name: definition.Name, Kind: definition.Kind, Payload: definition.Payload}
}

// End ends the session. With keep its changes join the record's transaction. It waits for
// a Commit that is under way.
func (s *Session) End(ctx context.Context, keep bool) error {
	s.mutex.Lock()
	s.over = true
	bases := make([]*base, 0, len(s.bases))
	for _, b := range s.bases {
		bases = append(bases, b)
	}
	s.mutex.Unlock()
	var first error
	for _, b := range bases {
		b.settle()
		if !keep || first != nil {
			continue
		}
		if b.pending.touched {
			first = s.record.Load(ctx)
		}
		if first != nil {
			continue
		}
		part, err := b.part(bases)
		if err == nil && part != nil {
			err = s.record.Join(*part)
		}
		first = err
	}
	return first
}

// base is what the handles of all kinds share.
type base struct {
	session    *Session
	definition config.Collection

	// Under session.mutex.
	pending *pending
	header  *entity.Header // that the pending changes lead to, at the end of the session
	busy    chan struct{}  // a commit is under way; closed at its end
}

// Identity tells which collection it is.
func (b *base) Identity() Identity { return IdentityOf(b.definition) }

// settle waits for a commit. Its own time-outs end it.
func (b *base) settle() {
	for {
		b.session.mutex.Lock()
		busy := b.busy
		b.session.mutex.Unlock()
		if busy == nil {
			return
		}
		<-busy
	}
}

// need is what an operation lacks.
type need struct {
	cells []string
	span  *span
	limit int // rows of the span; 0: as many as are usual
	wait  chan struct{}
}

// span is a range of coordinates to read a page of.
type span struct {
	from, to string
	open     bool // there is no to
	backward bool
}

// fetched is what was read for an operation.
type fetched struct {
	shelf   *shelf
	version uint64
	cells   map[string]cell
	page    *page
}

// page is the rows of a range, ascending. Nothing else is in the range.
type page struct {
	shelf    *shelf
	version  uint64
	from, to string
	open     bool
	rows     []entry
}

// view is what an operation works with, under the mutexes.
type view struct {
	*base
	book  *book
	extra *fetched
	now   int64
	left  *need
}

// act does an operation, again and again until it lacks nothing.
func act[T any](ctx context.Context, b *base, changes bool, work func(v *view) (T, error)) (T, error) {
	var extra *fetched
	for {
		result, lack, err := step(b, changes, extra, work)
		if err != nil || lack == nil {
			if extra == nil {
				b.session.registry.counts.hits.Add(1)
			}
			return result, err
		}
		if now(ctx) {
			return result, ErrPending
		}
		if extra == nil {
			b.session.registry.counts.misses.Add(1)
		}
		more, err := b.fetch(ctx, lack)
		if err != nil {
			return result, err
		}
		extra = more.with(extra)
	}
}

// with adds what was read before, where that still holds.
func (f *fetched) with(old *fetched) *fetched {
	if f == nil {
		return old
	}
	if old == nil || old.shelf != f.shelf || old.version != f.version {
		return f
	}
	for coordinate, c := range old.cells {
		if _, known := f.cells[coordinate]; !known {
			f.cells[coordinate] = c
		}
	}
	if f.page == nil {
		f.page = old.page
	}
	return f
}

func step[T any](b *base, changes bool, extra *fetched, work func(v *view) (T, error)) (T, *need, error) {
	var none T
	s := b.session
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.over {
		if changes {
			return none, nil, errSettled()
		}
		return none, nil, errOver()
	}
	if b.busy != nil {
		return none, &need{wait: b.busy}, nil
	}
	known, _ := s.record.Shelf(newShelf).(*shelf)
	if known == nil {
		return none, &need{}, nil
	}
	known.mutex.Lock()
	defer known.mutex.Unlock()
	book, err := known.book(b.definition.Kind, b.definition.Name)
	if err != nil {
		return none, nil, err
	}
	if extra != nil && (extra.shelf != known || extra.version != book.version) {
		extra = nil
	}
	v := &view{base: b, book: book, extra: extra, now: s.registry.options.Clock.Now().UnixMilli()}
	result, err := work(v)
	if err != nil || v.left != nil {
		return none, v.left, err
	}
	return result, nil, nil
}

// fetch gets what an operation lacks.
func (b *base) fetch(ctx context.Context, lack *need) (*fetched, error) {
	s := b.session
	if lack.wait != nil {
		select {
		case <-lack.wait:
			return nil, nil
		case <-ctx.Done():
			return nil, fault.Wrap(fault.Cancelled, context.Cause(ctx), "wait for a commit")
		}
	}
	if err := s.record.Load(ctx); err != nil {
		return nil, err
	}
	known, _ := s.record.Shelf(newShelf).(*shelf)
	if known == nil || lack.cells == nil && lack.span == nil {
		return nil, nil
	}
	known.mutex.Lock()
	book, err := known.book(b.definition.Kind, b.definition.Name)
	if err != nil {
		known.mutex.Unlock()
		return nil, err
	}
	f := &fetched{shelf: known, version: book.version, cells: map[string]cell{}}
	limit := cmp.Or(lack.limit, book.batch())
	known.mutex.Unlock()
	if err := b.points(ctx, f, lack.cells); err != nil {
		return nil, err
	}
	if lack.span != nil {
		if err := b.rows(ctx, f, lack.span, limit); err != nil {
			return nil, err
		}
	}
	known.mutex.Lock()
	book.take(f)
	known.mutex.Unlock()
	s.bound(known)
	return f, nil
}

// bound drops cells from memory when there are too many.
func (s *Session) bound(known *shelf) {
	if !s.record.Grown() || known.bytes.Load() > s.registry.options.Bytes {
		known.shed()
		s.record.Grown()
	}
}

func (b *base) section() string {
	if b.definition.Kind == config.KindValue {
		return single
	}
	return many
}

const mostGets = 256

func (b *base) points(ctx context.Context, f *fetched, coordinates []string) error {
	for len(coordinates) > 0 {
		some := coordinates[:min(mostGets, len(coordinates))]
		coordinates = coordinates[len(some):]
		slots := make([]store.Slot, len(some))
		for i, coordinate := range some {
			slots[i] = slot(b.definition.Name, b.section(), coordinate)
		}
		began := time.Now()
		rows, err := b.session.record.Get(ctx, slots...)
		b.session.registry.read(began, len(rows), err)
		if err != nil {
			return err
		}
		for i, row := range rows {
			var c cell
			if row != nil {
				if c, err = decodeCell(row); err != nil {
					return err
				}
			}
			f.cells[some[i]] = c
		}
	}
	return nil
}

func (b *base) rows(ctx context.Context, f *fetched, over *span, limit int) error {
	if b.kept(f, over, limit) {
		return nil
	}
	began := time.Now()
	rows, more, err := b.session.record.Scan(ctx, over.rows(b.definition.Name), over.backward, limit)
	b.session.registry.read(began, len(rows), err)
	if err != nil {
		return err
	}
	f.page, err = over.page(rows, more)
	if err == nil {
		f.page.shelf, f.page.version = f.shelf, f.version
	}
	return err
}

// kept makes a page of a deque's rows that need no reading from the store. Their coordinates
// are known, so no range of them has to be.
func (b *base) kept(f *fetched, over *span, limit int) bool {
	if b.definition.Kind != config.KindDeque || over.open || len(over.from) != 8 || len(over.to) != 8 {
		return false
	}
	p := &page{shelf: f.shelf, version: f.version, from: over.from, to: over.to}
	first, last := number(over.from), number(over.to)
	if last-first > int64(limit) {
		if over.backward {
			first = last - int64(limit)
			p.from = index(first)
		} else {
			last = first + int64(limit)
			p.to = index(last)
		}
	}
	slots := make([]store.Slot, 0, max(last-first, 0))
	for at := first; at < last; at++ {
		slots = append(slots, slot(b.definition.Name, many, index(at)))
	}
	rows, known := b.session.record.Kept(slots...)
	if !known {
		return false
	}
	for i, row := range rows {
		if row == nil {
			continue
		}
		content, err := decodeCell(row)
		if err != nil {
			return false
		}
		p.rows = append(p.rows, entry{coordinate: index(first + int64(i)), cell: content})
	}
	f.page = p
	return true
}

// rows is the span in the store.
func (s *span) rows(name string) store.Range {
	r := store.Range{Kind: store.Cell, Name: name, From: many + s.from, To: many + s.to}
	if s.open {
		r.To = beyond
	}
	return r
}

// page makes a page of rows; with more of them, it ends at the last one.
func (s *span) page(rows []store.Row, more bool) (*page, error) {
	p := &page{from: s.from, to: s.to, open: s.open, rows: make([]entry, len(rows))}
	for i, row := range rows {
		at := i
		if s.backward {
			at = len(rows) - 1 - i
		}
		content, err := decodeCell(row.Data)
		if err != nil || len(row.Coordinate) == 0 {
			return nil, errDamaged()
		}
		p.rows[at] = entry{coordinate: row.Coordinate[1:], cell: content}
	}
	switch {
	case !more || len(rows) == 0:
	case s.backward:
		p.from = p.rows[0].coordinate
	default:
		p.to, p.open = p.rows[len(rows)-1].coordinate+"\x00", false
	}
	return p, nil
}

// has tells whether a coordinate is in the page's range.
func (p *page) has(coordinate string) bool {
	return coordinate >= p.from && (p.open || coordinate < p.to)
}
