package catalog

import "context"

// ReadExactly makes the catalog read what the server has of the specs, and nothing else, as if it had just found out that
// this is wanted. It is called instead of Run, and returns when readers that are no longer wanted have ended.
func (c *Catalog) ReadExactly(ctx context.Context, specs ...Spec) {
	c.Specs, c.order = specs, nil
	clear(c.wanted)
	if served, err := c.directory.ask(ctx, 0); err == nil {
		c.resolve(ctx, served)
	}
	c.apply(ctx)
}

// Wait waits for the end of all readers.
func (c *Catalog) Wait() { c.readers.Wait() }
