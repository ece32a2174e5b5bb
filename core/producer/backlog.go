package producer

import (
	"errors"
	"sync"
	"sync/atomic"

	"prosody/core/fault"
	"prosody/core/kafka"
)

// backlog holds sends in order while the client library's own queue is full. What is
// in it ends by its deadline, or is handed over when a report has made room.
type backlog struct {
	size     atomic.Int64
	mutex    sync.Mutex
	sends    []*send
	flushing bool
	again    bool // room was made while somebody flushed
}

// hand gives a send to the adapter, behind those that wait already.
func (p *Producer) hand(s *send) *fault.Error {
	if p.backlog.size.Load() > 0 {
		p.wait(s)
		return nil
	}
	err := p.produce(s)
	if err == nil {
		return nil
	}
	if full(err) {
		p.wait(s)
		return nil
	}
	return Fault(err, "send to topic "+quote(s.record.Topic))
}

func (p *Producer) produce(s *send) error {
	return p.inner.Produce(&s.record, func(report kafka.Delivery) { p.delivered(s, report) })
}

// wait queues a send, then looks whether room was made meanwhile.
func (p *Producer) wait(s *send) {
	p.backlog.mutex.Lock()
	p.backlog.sends = append(p.backlog.sends, s)
	p.backlog.size.Add(1)
	p.backlog.mutex.Unlock()
	p.flush()
}

// flush hands over what waits, until the adapter is full again.
func (p *Producer) flush() {
	b := &p.backlog
	if b.size.Load() == 0 {
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.flushing {
		b.again = true
		return
	}
	b.flushing = true
	defer func() { b.flushing = false }()
	for len(b.sends) > 0 {
		s := b.sends[0]
		b.again = false
		b.mutex.Unlock()
		err := p.next(s)
		b.mutex.Lock()
		if full(err) {
			if b.again {
				continue
			}
			return
		}
		b.sends[0] = nil
		b.sends = b.sends[1:]
		b.size.Add(-1) // only now: later sends must stay behind this one
	}
	b.sends = nil
}

// next hands one waiting send over, unless it has ended. It returns an error only when
// the send has to wait on.
func (p *Producer) next(s *send) error {
	if !p.deadlines.Holds(&s.entry) {
		p.land(s, false)
		return nil
	}
	err := p.produce(s)
	if err == nil || full(err) {
		return err
	}
	p.settle(s, Sent{Partition: -1, Offset: -1, Err: Fault(err, "send to topic "+quote(s.record.Topic))})
	return nil
}

func full(err error) bool {
	var failure *kafka.Error
	return errors.As(err, &failure) && failure.Code == kafka.Full
}
