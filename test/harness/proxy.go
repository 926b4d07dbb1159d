package harness

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy forwards TCP connections, can be cut, and can be made to misbehave.
type Proxy struct {
	server *toxiproxy.ApiServer
	proxy  *toxiproxy.Proxy
}

// StartProxy starts a proxy to host:port that ends with the test.
func StartProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{server: server, proxy: toxiproxy.NewProxy(server, t.Name(), "127.0.0.1:0", upstream)}
	p.Restore(t)
	t.Cleanup(p.Cut)
	return p
}

// Address returns where the proxy listens. It stays the same across cuts.
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

// Toxic is how a Proxy disturbs the bytes that it forwards.
// https://github.com/Shopify/toxiproxy#toxics
type Toxic struct {
	Type       string           `json:"type"`
	Stream     string           `json:"stream"` // downstream: from the server; upstream: to it
	Attributes map[string]int64 `json:"attributes"`
}

// Toxics that tests use, in both directions where it makes a difference.
var (
	// HalfOpen: nothing gets through, and neither side is notified.
	HalfOpen = []Toxic{{Type: "timeout", Stream: "downstream"}, {Type: "timeout", Stream: "upstream"}}
	// Resetting: connections are reset as soon as the server sends something.
	Resetting = []Toxic{{Type: "reset_peer", Stream: "downstream"}}
)

// Slow delays everything from the server by some milliseconds and limits it to some kilobytes per second.
func Slow(milliseconds, kilobytesPerSecond int64) []Toxic {
	return []Toxic{
		{Type: "latency", Stream: "downstream", Attributes: map[string]int64{"latency": milliseconds, "jitter": milliseconds / 2}},
		{Type: "bandwidth", Stream: "downstream", Attributes: map[string]int64{"rate": kilobytesPerSecond}},
	}
}

// Afflict applies toxics to all current and future connections, until Heal.
func (p *Proxy) Afflict(t testing.TB, toxics ...Toxic) {
	t.Helper()
	for _, toxic := range toxics {
		if toxic.Attributes == nil {
			toxic.Attributes = map[string]int64{}
		}
		definition, err := json.Marshal(toxic)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.proxy.Toxics.AddToxicJson(bytes.NewReader(definition)); err != nil {
			t.Fatalf("cannot make the proxy %s: %v", toxic.Type, err)
		}
	}
}

// Heal removes all toxics, and closes all connections: toxiproxy would wait forever to remove a toxic from one that is
// stuck in it.
func (p *Proxy) Heal(t testing.TB) {
	t.Helper()
	p.Cut()
	p.proxy = toxiproxy.NewProxy(p.server, p.proxy.Name, p.proxy.Listen, p.proxy.Upstream)
	p.Restore(t)
}
