package harness

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy passes TCP connections on, can be cut, and can be made to pass them on badly.
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

// Toxic is what a Proxy does to the bytes that it passes on.
// https://github.com/Shopify/toxiproxy#toxics
type Toxic struct {
	Type       string           `json:"type"`
	Stream     string           `json:"stream"` // downstream: from the server; upstream: to it
	Attributes map[string]int64 `json:"attributes"`
}

// Toxics that tests use, in both directions where it makes a difference.
var (
	// HalfOpen: nothing comes through any more and nobody is told.
	HalfOpen = []Toxic{{Type: "timeout", Stream: "downstream"}, {Type: "timeout", Stream: "upstream"}}
	// Resetting: connections are reset as soon as the server says something on them.
	Resetting = []Toxic{{Type: "reset_peer", Stream: "downstream"}}
)

// Slow makes everything from the server late by some milliseconds and no faster than some kilobytes a second.
func Slow(milliseconds, kilobytesPerSecond int64) []Toxic {
	return []Toxic{
		{Type: "latency", Stream: "downstream", Attributes: map[string]int64{"latency": milliseconds, "jitter": milliseconds / 2}},
		{Type: "bandwidth", Stream: "downstream", Attributes: map[string]int64{"rate": kilobytesPerSecond}},
	}
}

// Afflict does something to all connections, those that are open and those to come, until Heal.
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

// Heal ends what Afflict began, and closes all connections: toxiproxy waits for ever where it is to take a toxic out of
// one that is stuck in it.
func (p *Proxy) Heal(t testing.TB) {
	t.Helper()
	p.Cut()
	p.proxy = toxiproxy.NewProxy(p.server, p.proxy.Name, p.proxy.Listen, p.proxy.Upstream)
	p.Restore(t)
}
