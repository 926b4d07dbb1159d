package child

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePort returns a port without a listener. It is below the ranges that operating systems use for outgoing
// connections, so that it is still free when a stopped process is restarted.
func FreePort() (int, error) {
	var last error
	for range 100 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("cannot find a free port: %w", err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("cannot find a free port: %w", last)
}
