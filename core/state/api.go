package state

// The operations, for whoever builds on this package. Found false: there is nothing. A
// position or key that is not there is no error. All may return Pending, see Memory.
//
//	registry := New(Options{…})                    one per consumer
//	session := registry.Begin(txn, event)          one per attempt: Invocation.State
//	handle, err := session.Bind(Identity{…})       fault.Invalid: not registered, or of another kind
//
//	Value  Get(ctx) (Item, found, error)           Set(ctx, Item)  Clear(ctx)
//	Map    Get(ctx, key) (Item, found, error)      GetMany(ctx, keys) ([]*Item, error)
//	       Contains(ctx, key)  ContainsMany(ctx, keys) ([]bool, error)  IsEmpty(ctx)
//	       Set(ctx, key, Item)  Remove(ctx, key)  Clear(ctx)  Scan(Query) (*Scan, error)
//	Set    Add(ctx, member)  Discard(ctx, member)  Contains  ContainsMany  IsEmpty  Clear  Scan(Query)
//	Deque  Append(ctx, Item)  AppendLeft(ctx, Item)  Pop(ctx)  PopLeft(ctx)  Peek(ctx)  PeekLeft(ctx)
//	       Get(ctx, index)  Size(ctx) (int64, error)  IsEmpty(ctx)  Clear(ctx)  Scan(Span) (*Scan, error)
//	Scan   Next(ctx, most) ([]Entry, error)        none left: an empty list. With Memory: what is
//	                                               at hand, at least one, or Pending.
//	       Close()                                 later calls of Next fail with fault.Settled
//	all    Commit(ctx)  Rollback(ctx)  Identity()
