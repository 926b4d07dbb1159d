package harness

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// ClosedDoor is an address at which every connection is closed at once, as by a load balancer without a server behind
// it. It counts the connections.
type ClosedDoor struct {
	changes
	listener net.Listener
	done     chan struct{}

	counting sync.Mutex
	knocks   int
}

// CloseDoor listens on host:port until Open or the end of the test.
func CloseDoor(t testing.TB, address string) *ClosedDoor {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	d := &ClosedDoor{listener: listener, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = connection.Close()
			d.counting.Lock()
			d.knocks++
			d.counting.Unlock()
			d.happened()
		}
	}()
	t.Cleanup(d.Open)
	return d
}

// AwaitKnocks waits until that many connections have been closed.
func (d *ClosedDoor) AwaitKnocks(t testing.TB, n int, within time.Duration) {
	t.Helper()
	d.await(t, within, fmt.Sprintf("%d tries to connect to %s", n, d.listener.Addr()), func() string {
		d.counting.Lock()
		defer d.counting.Unlock()
		if d.knocks < n {
			return fmt.Sprintf("there were %d", d.knocks)
		}
		return ""
	})
}

// Open frees the address for another server.
func (d *ClosedDoor) Open() {
	_ = d.listener.Close() // the second time it is already closed
	<-d.done
}
