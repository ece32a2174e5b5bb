package partition

// link is a pointer to something that carries the pointer to its successor.
type link[T any] interface {
	*T
	successor() **T
}

// fifo is a queue whose elements carry the links, so that it needs no memory.
type fifo[T any, P link[T]] struct {
	head, tail *T
}

func (f *fifo[T, P]) empty() bool { return f.head == nil }

func (f *fifo[T, P]) push(element *T) {
	*P(element).successor() = nil
	if f.tail == nil {
		f.head = element
	} else {
		*P(f.tail).successor() = element
	}
	f.tail = element
}

// pop takes the first element; nil when there is none.
func (f *fifo[T, P]) pop() *T {
	element := f.head
	if element == nil {
		return nil
	}
	f.head = *P(element).successor()
	if f.head == nil {
		f.tail = nil
	}
	*P(element).successor() = nil
	return element
}

// remove takes an element out, wherever it is.
func (f *fifo[T, P]) remove(element *T) {
	var before *T
	for at := f.head; at != nil; before, at = at, *P(at).successor() {
		if at != element {
			continue
		}
		next := *P(at).successor()
		if before == nil {
			f.head = next
		} else {
			*P(before).successor() = next
		}
		if next == nil {
			f.tail = before
		}
		*P(at).successor() = nil
		return
	}
}
