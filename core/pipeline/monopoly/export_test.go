package monopoly

// Keys counts what is kept.
func Keys(m *Monopoly) int { return len(m.keys) }
