package harness

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// Request is a request in the API server's audit log.
type Request struct {
	Stage      string
	Verb       string
	RequestURI string
	User       struct{ Username string }
	ObjectRef  struct {
		Resource, Namespace, Name, APIGroup string
	}
	ResponseStatus struct{ Code int }
}

// RequestsOf returns the requests of a user so far, each once for every stage that it has reached.
func (c *Cluster) RequestsOf(t testing.TB, user string) []Request {
	t.Helper()
	file, err := os.Open(c.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	var requests []Request
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return requests // the rest is still being written
		}
		var request Request
		if err := json.Unmarshal(line, &request); err != nil {
			t.Fatalf("cannot read the audit log: %v in %s", err, line)
		}
		if request.User.Username == user {
			requests = append(requests, request)
		}
	}
}
