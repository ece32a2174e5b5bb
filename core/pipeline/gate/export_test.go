package gate

// Topics counts what is kept.
func Topics(g *Gate) int { return len(g.rings) }
