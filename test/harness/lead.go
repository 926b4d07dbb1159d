package harness

import (
	"testing"

	"github.com/Shopify/toxiproxy/v2"
)

// Lead directs the proxy to host:port, which may be another server than before. Connections are closed, new ones are
// accepted, and everything that Afflict began ends.
func (p *Proxy) Lead(t testing.TB, upstream string) {
	t.Helper()
	p.Cut()
	p.proxy = toxiproxy.NewProxy(p.server, p.proxy.Name, p.proxy.Listen, upstream)
	p.Restore(t)
}
