package disk

// Break makes files fail from now on, by the name of the operation.
func (o *Options) Break(fault func(op string) error) { o.broken = fault }

// Generations is how many there are.
func (c *Cache) Generations() int { return len(c.all()) }

// Home is the directory of the client's own.
func (c *Cache) Home() string { return c.home.path }
