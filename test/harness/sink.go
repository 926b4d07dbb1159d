package harness

import (
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otlp"
)

// Sink is an OTLP server on loopback that keeps what it accepts, and can be made to refuse, block or be slow.
type Sink struct {
	*Consumer
	*otlp.Sink
}

// StartSink starts a sink that ends with the test.
func StartSink(t testing.TB) *Sink {
	t.Helper()
	consumer := &Consumer{}
	server, err := otlp.Listen("127.0.0.1:0", consumer.ConsumeLogs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &Sink{Consumer: consumer, Sink: server}
}
