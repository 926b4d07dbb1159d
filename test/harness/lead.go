package harness

import (
	"testing"

	"github.com/Shopify/toxiproxy/v2"
)

// Lead makes the proxy lead to host:port, which may be another server than before. Connections are closed, those to
// come are accepted, and nothing that Afflict began goes on.
func (p *Proxy) Lead(t testing.TB, upstream string) {
	t.Helper()
	p.Cut()
	p.proxy = toxiproxy.NewProxy(p.server, p.proxy.Name, p.proxy.Listen, upstream)
	p.Restore(t)
}
