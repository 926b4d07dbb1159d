// Package pipenet connects the clients and the server of a test in memory, so that nothing waits outside the virtual
// time of testing/synctest.
package pipenet

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// Network is a listener and the dialer for it.
type Network struct {
	// RefuseUntil is when the listener begins to accept connections.
	RefuseUntil time.Time

	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// New returns a network without connections.
func New() *Network {
	return &Network{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Serve answers requests on the network with the handler until stop is called, which waits for the end.
func (n *Network) Serve(handler http.Handler) (stop func()) {
	server := &http.Server{Handler: handler} //nolint:gosec // only the test sends it headers
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(n) // fails only because stop was called
	}()
	return func() {
		_ = server.Close()
		<-done
	}
}

// Dial connects to the listener, whatever the address.
func (n *Network) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if time.Now().Before(n.RefuseUntil) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	client, server := net.Pipe()
	select {
	case n.conns <- server:
		return client, nil
	case <-n.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (n *Network) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (n *Network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// Addr implements net.Listener.
func (n *Network) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "pipe" }
func (addr) String() string  { return "apiserver" }
