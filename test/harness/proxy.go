package harness

import (
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy passes TCP connections on, and can be cut.
type Proxy struct {
	proxy *toxiproxy.Proxy
}

// StartProxy starts a proxy to host:port that ends with the test.
func StartProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{proxy: toxiproxy.NewProxy(server, t.Name(), "127.0.0.1:0", upstream)}
	p.Restore(t)
	t.Cleanup(p.Cut)
	return p
}

// Address is where the proxy listens. It stays the same over cuts.
func (p *Proxy) Address() string { return p.proxy.Listen }

// Cut closes all connections and refuses new ones.
func (p *Proxy) Cut() { p.proxy.Stop() }

// Restore accepts connections again.
func (p *Proxy) Restore(t testing.TB) {
	t.Helper()
	if err := p.proxy.Start(); err != nil {
		t.Fatalf("cannot start the proxy: %v", err)
	}
}
