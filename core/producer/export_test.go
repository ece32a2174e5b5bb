package producer

// Flights tells how many ids are on their way.
func (p *Producer) Flights() int {
	p.known.mutex.Lock()
	defer p.known.mutex.Unlock()
	return len(p.known.flights)
}

// Backlog tells how many sends wait for room.
func (p *Producer) Backlog() int {
	p.backlog.mutex.Lock()
	defer p.backlog.mutex.Unlock()
	return len(p.backlog.sends)
}
